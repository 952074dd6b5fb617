// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/partition/layer_costs.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// What the stages of a group do at once.
enum class pipelining : uint8_t {
  none,      ///< one request is answered before the next is begun
  handed_on, ///< a stage begins the next when the last has left it
  overlapped ///< it begins the next while the last is on its way
};

constexpr auto names_of(pipelining) {
  return name_table{"none", "handed_on", "overlapped"};
}

/// How a model is cut, and what that costs: Flashpoint 4.2.1, table 4.1. Each
/// part runs on a device, all of them are a group, which is one replica.
struct partition {
  std::vector<uint32_t> cuts; ///< first layers of all parts but the first
  double cold = 0;            ///< C: until the last of its parts is loaded
  double period = 0;          ///< between two answers; max(E, N) if overlapped
  double inference = 0; ///< I(p) = I(1) + IN: of one request, without waiting

  size_t parts() const { return cuts.size() + 1; }
};

/// The mean over `requests` of how many are before each in its group, of
/// `groups` that share them: what eqs. 4.5 and 4.8 make of the period, in
/// closed form and with the sum over y, which the thesis prints as x.
double mean_place(uint64_t requests, uint64_t groups);

/// T, the mean time from now to the answer of so many requests that wait, on as
/// many groups as so many devices make (eqs. 4.7 and 4.8). Infinite on fewer
/// devices than parts.
double mean_response(const partition& x, uint64_t requests, uint64_t devices);

/// Finds the best cuts of one model for every number of requests and devices.
///
/// Exact, where the thesis' dynamic program (eq. 4.10) is not: T mixes two
/// maxima and a sum, so that the best cuts of a part need not be part of the
/// best cuts. For each prefix of layers and number of parts all Pareto-optimal
/// triples of C, the period and IN are kept; T grows with each of the three,
/// and maxima and sums preserve that. Requests and devices enter at the end
/// alone: of all plans with as many parts, T is linear in mean_place, so the
/// best of them are the lower envelope of lines.
class partition_planner {
public:
  /// At least one layer. Tries no more parts than there are layers.
  explicit partition_planner(const layer_costs& costs,
                             pipelining mode = pipelining::overlapped,
                             size_t max_parts = SIZE_MAX);

  size_t max_parts() const { return by_parts_.size(); }

  /// The cuts with the least mean_response; of equals, the fewest. At least one
  /// request and device.
  const partition& best(uint64_t requests, uint64_t devices) const;

  /// The same among those with so many parts, at most max_parts() and devices.
  const partition& best_of(size_t parts, uint64_t requests,
                           uint64_t devices) const;

  /// Those of so many parts than which none gives both its first answer and
  /// the next ones as soon, the soonest first answer first.
  const std::vector<partition>& plans_of(size_t parts) const {
    return by_parts_[parts - 1].plans;
  }

  /// From the first number of requests to the last the same cuts are best.
  struct range {
    uint64_t first, last;
    const partition* plan; ///< the planner's
  };
  std::vector<range> ranges(uint64_t devices, uint64_t most_requests) const;

private:
  /// Plans, and which of them are best, each from a mean_place on.
  struct choice {
    std::vector<partition> plans;
    std::vector<double> from;
    std::vector<size_t> best;
  };
  static choice choice_among(std::vector<partition> xs);

  std::vector<choice> by_parts_;
};

} // namespace millrace
