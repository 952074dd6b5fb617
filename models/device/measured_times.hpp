// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "models/contention/measured.hpp"
#include "models/profile.hpp"

namespace millrace {

/// What a profile has of a whole model on one kind of device, for an emulated
/// device. Points with just the dimensions share, threads or both give
/// execution times there; those with at_once alone give slowdowns.
class measured_times {
public:
  measured_times() = default;
  measured_times(const profile& known, const std::string& kind);

  /// Execution time by rows, where that was measured; null: it was not. Neither
  /// with a share of 0 nor with one thread is there a dimension.
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
