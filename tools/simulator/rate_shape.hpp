// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/scenario_workload.hpp"

namespace millrace {

/// A factor of the rate over time. Operational time is the integral of the
/// factor. A process with constant rate in operational time has the changing
/// rate in real time, and keeps the dependence between its gaps (Çınlar,
/// Introduction to Stochastic Processes, 1975, section 4.7).
class rate_shape {
public:
  /// The surges and the daily swing of a part of `end` seconds. `per_second`:
  /// the factor of each second from 0 on, read from a file; 0 after the last;
  /// empty: 1 throughout.
  rate_shape(const workload_part& part, double end,
             const std::vector<double>& per_second = {});

  /// Whether the factor is 1 throughout.
  bool flat() const { return pieces_.empty(); }

  /// Operational seconds in total.
  double area() const { return area_; }

  /// Converts operational seconds, in order, to real seconds.
  void to_real_time(std::vector<double>& points) const;

private:
  /// A piece of time without the begin or end of a surge: only the daily swing
  /// changes the rate.
  struct piece {
    double begin = 0, end = 0; ///< real seconds
    double factor = 1;
    double before = 0; ///< operational seconds until `begin`
  };

  double area_between(const piece& part, double from, double to) const;
  double find(const piece& part, double wanted, double from) const;

  diurnal_cycle cycle_;
  std::vector<piece> pieces_;
  double area_ = 0;
};

} // namespace millrace
