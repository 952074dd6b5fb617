// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/partition/layer_costs.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// How the stages of a group overlap.
enum class pipelining : uint8_t {
  none,      ///< a request starts after the answer to the last one
  handed_on, ///< a stage starts the next request when it has sent the last
             ///< result
  overlapped ///< a stage starts the next request while it sends the last result
};

constexpr auto names_of(pipelining) {
  return name_table{"none", "handed_on", "overlapped"};
}

/// A way to cut a model, with its costs: Flashpoint 4.2.1, table 4.1. Each part
/// runs on a device; all parts form a group, which is one replica.
struct partition {
  std::vector<uint32_t> cuts; ///< first layers of all parts but the first
  double cold = 0;            ///< C: until the last part is loaded
  double period = 0;          ///< between two answers; max(E, N) if overlapped
  double inference = 0; ///< I(p) = I(1) + IN: of one request, without queueing

  size_t parts() const { return cuts.size() + 1; }
};

/// The mean number of requests ahead of each of `requests` requests in its
/// group, with `groups` groups: the factor of the period in eqs. 4.5 and 4.8,
/// in closed form and with the sum over y, which the thesis prints as x.
double mean_place(uint64_t requests, uint64_t groups);

/// T, the mean time from now to the answers of `requests` waiting requests, on
/// as many groups as `devices` devices allow (eqs. 4.7 and 4.8). Infinite with
/// fewer devices than parts.
double mean_response(const partition& parts, uint64_t requests,
                     uint64_t devices);

/// Finds the best cuts of one model for every number of requests and devices.
///
/// Exact, where the thesis' dynamic program (eq. 4.10) is not: T combines two
/// maxima and a sum, so that the best cuts of a prefix need not be part of the
/// best cuts. For each prefix of layers and number of parts, all Pareto-optimal
/// triples of C, the period and IN are kept; T grows with each of the three,
/// and maxima and sums preserve that. Requests and devices matter only at the
/// end: among plans with equally many parts T is linear in mean_place, so the
/// best plans are the lower envelope of lines.
class partition_planner {
public:
  /// Requires at least one layer. Tries at most as many parts as layers.
  explicit partition_planner(const layer_costs& costs,
                             pipelining mode = pipelining::overlapped,
                             size_t max_parts = SIZE_MAX);

  size_t max_parts() const { return by_parts_.size(); }

  /// The cuts with the least mean_response; among equals, the fewest. Requires
  /// at least one request and device.
  const partition& best(uint64_t requests, uint64_t devices) const;

  /// The same with exactly `parts` parts, at most max_parts() and devices.
  const partition& best_of(size_t parts, uint64_t requests,
                           uint64_t devices) const;

  /// The plans with `parts` parts that are Pareto-optimal in the times of their
  /// first and of later answers, ordered by the first answer.
  const std::vector<partition>& plans_of(size_t parts) const {
    return by_parts_[parts - 1].plans;
  }

  /// Numbers of requests from first to last for which the same cuts are best.
  struct range {
    uint64_t first, last;
    const partition* plan; ///< owned by the planner
  };
  std::vector<range> ranges(uint64_t devices, uint64_t most_requests) const;

private:
  /// Plans, and the mean_place from which each is best.
  struct choice {
    std::vector<partition> plans;
    std::vector<double> from;
    std::vector<size_t> best;
  };
  static choice choice_among(std::vector<partition> xs);

  std::vector<choice> by_parts_;
};

} // namespace millrace
