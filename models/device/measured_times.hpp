// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "models/contention/measured.hpp"
#include "models/profile.hpp"

namespace millrace {

/// The times of a whole model on one kind of device, from a profile, for an
/// emulated device. Points with exactly the dimensions share, threads or both
/// give execution times there; points with at_once alone give slowdowns.
class measured_times {
public:
  measured_times() = default;
  measured_times(const profile& known, const std::string& kind);

  /// Execution time by rows; null: not measured. A share of 0 and one thread
  /// mean that the dimension is absent.
  const curve* execute(double share, uint32_t threads) const;

  /// Any metric of the whole device at a number of rows; 0: not measured.
  double metric(std::string_view name, double rows) const;

  /// Slowdowns of several batches of the model at once.
  const measured_contention& at_once() const { return at_once_; }

private:
  using place = std::pair<double, double>; ///< share, threads

  std::map<place, curve> execute_;
  std::map<std::string, curve, std::less<>> metrics_;
  measured_contention at_once_;
};

} // namespace millrace
