// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/scenario_workload.hpp"

namespace millrace {

/// A factor of the rate over time. A process of constant rate in operational
/// time, the integral of the factor, has the changing rate in real time and
/// keeps the dependence between its gaps (Çınlar, Introduction to Stochastic
/// Processes, 1975, section 4.7).
class rate_shape {
public:
  /// The surges and the daily swing of a part that lasts `end` seconds.
  /// `per_second`: factors of the seconds from 0 on, of a file; 0 beyond the
  /// file's end; empty: 1 throughout.
  rate_shape(const workload_part& part, double end,
             const std::vector<double>& per_second = {});

  /// The factor is 1 throughout.
  bool flat() const { return pieces_.empty(); }

  /// Operational seconds in all.
  double area() const { return area_; }

  /// Turns operational seconds, in order, into real ones.
  void to_real_time(std::vector<double>& points) const;

private:
  /// A time in which only the daily swing changes the rate.
  struct piece {
    double begin = 0, end = 0; ///< real seconds
    double factor = 1;
    double before = 0; ///< operational seconds until `begin`
  };

  double area_between(const piece& x, double from, double to) const;
  double find(const piece& x, double wanted, double from) const;

  diurnal_cycle cycle_;
  std::vector<piece> pieces_;
  double area_ = 0;
};

} // namespace millrace
