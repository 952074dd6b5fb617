// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// PALDIA's model of a shared device (section IV-A, equation 1). Of N requests
/// that arrive together, some run at once in batches, and y requests wait and
/// run afterwards, one batch at a time.

#include <cstdint>
#include <functional>
#include <optional>

#include "runtime/names.hpp"

namespace millrace {

/// Requests of one model that arrive together, and their device.
struct shared_load {
  uint64_t requests = 0;             ///< N
  uint64_t batch = 1;                ///< rows of a full batch
  double solo = 0;                   ///< seconds of a full batch alone
  double slo = 0;                    ///< seconds
  uint64_t at_once_max = UINT64_MAX; ///< batches: lanes of the device
  /// Run time of a batch relative to a batch alone, by the number of batches at
  /// once. Values below 1 count as 1.
  std::function<double(double)> slowdown{};
};

enum class split_objective : uint8_t {
  min_tmax,   ///< least time of the last request (the paper's)
  max_on_time ///< most requests within the SLO, then least time of the last
};

constexpr auto names_of(split_objective) {
  return name_table{"min_tmax", "max_on_time"};
}

/// How a device is shared for one load.
struct device_split {
  uint64_t queued = 0;  ///< y
  uint64_t at_once = 0; ///< batches, ceil((N - y) / batch)
  double longest = 0;   ///< T_max, seconds
  uint64_t on_time = 0; ///< requests within the SLO
  uint64_t rows = 0;    ///< of a batch, at most
};

/// T_max(y) of equation 1 as printed, in seconds: S (y + F (N - y)) / c, with
/// the part F (FBR) of the memory bandwidth that a batch needs.
double printed_tmax(const shared_load& load, double part, uint64_t queued);

/// Integers y with 0 <= y < N (C1), N - y > c / F (C2) and T_max(y) < SLO.
struct split_range {
  uint64_t first = 0, last = 0; ///< both included
};

/// The range as printed, in closed form; nothing when it is empty, for example
/// without contention (C2).
std::optional<split_range> printed_range(const shared_load& load, double part);

/// The y of the range with the least T_max; nothing for an empty range.
/// Equation 1 is linear in y: the least y with F <= 1, else the largest.
std::optional<device_split> printed_split(const shared_load& load, double part);

/// T_max(y) = S (y / c + max(1, slowdown(k))) with k batches at once. Requests
/// on time are those of the wave, if the wave ends within the SLO, and those of
/// later batches that end within the SLO. A batch of fewer rows takes a
/// proportional time.
device_split split_of(const shared_load& load, uint64_t queued);

/// The best split over all numbers of batches at once. C2 excludes no split
/// here: without contention all batches run at once.
device_split best_split(const shared_load& load, split_objective by);

/// The split with the most requests on time when batches may have fewer rows.
/// For each number of batches at once, batches have as many rows as end within
/// the SLO less `margin` seconds. More batches need a gain of 1 % of requests
/// on time.
device_split best_split_of_rows(const shared_load& load, double margin);

/// The number of batches at once, refilled, with the highest throughput and an
/// end within the SLO; at least 1.
uint64_t best_cap(const shared_load& load);

} // namespace millrace
