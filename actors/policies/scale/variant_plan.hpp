// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Which variants of an application to load and unload (INFaaS, sections 3.2
/// and 4.2). Pure functions; policy `infaas` provides the input.

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/messages/desired.hpp"

namespace millrace {

/// Usage of the ready replicas of a variant.
struct variant_usage {
  uint64_t ready = 0;    ///< replicas
  double served = 0;     ///< requests per second, of all replicas
  double saturation = 0; ///< requests per second of one replica
  double latency = 0;    ///< seconds of a batch, recently; 0: unknown
  double profiled = 0;   ///< seconds of a batch, by the profile
};

/// The state of a variant. Overload is tested first: an overloaded variant is
/// never interfered. The paper gives no tolerances: `peak` is the part of the
/// saturation throughput that counts as the peak, `excess` the factor by which
/// the latency may exceed the profile.
variant_state state_of(const variant_usage& usage, double peak, double excess);

/// A variant of an application, in the symbols of section 4.2.1.
struct variant_facts {
  double cost = 0;       ///< C, of one instance, per second
  double load = 0;       ///< T_load, in seconds
  double saturation = 0; ///< Q, requests per second of one instance; above 0
  double latency = 0;    ///< T_inf, in seconds
  uint64_t count = 0;    ///< N, instances that run or start
  uint64_t room = 0;     ///< instances that fit beside these
};

/// The goal of a plan.
struct variant_goal {
  double rate = 0;   ///< (L + slack) requests per second
  double slo = 0;    ///< S, in seconds; 0: none
  double lambda = 0; ///< weight of loading times, per second
};

/// Instances to add (above 0) and to remove (below 0), by variant.
struct variant_plan {
  std::vector<int64_t> change;
  double cost = 0;
  bool proven = true; ///< no plan is cheaper; false: the search ended early
};

/// Cost(delta) = C * (delta + lambda * T_load * max(delta, 0)).
double cost_of_change(const variant_facts& variant, int64_t delta,
                      double lambda);

/// The highest rate that the instances can serve.
double capacity_of(const std::vector<variant_facts>& all);

/// The cheaper of two ways to serve more (section 4.2.2): to replicate the
/// variant with the most capacity, or to add a variant of higher throughput.
///
/// - With no instance, every variant may be added.
/// - New instances meet the SLO; if no variant does, the SLO is ignored.
/// - Running instances stay.
/// - If no single variant has room for the whole rate, the variant that serves
///   the largest part is added.
///
/// Nothing: the rate is served already, or no variant has room. `upgrade`:
/// whether variants other than the running one count.
std::optional<variant_plan>
cheapest_addition(const std::vector<variant_facts>& all,
                  const variant_goal& goal, bool upgrade);

/// The integer program of section 4.2.1, solved by branch and bound: the
/// changes of least cost with which the instances serve the rate. Variants that
/// exceed the SLO are not added, but may stay. Constraint 3 is `room`. Visits
/// at most `nodes` nodes. Nothing: no change within room serves the rate.
std::optional<variant_plan> cheapest_plan(const std::vector<variant_facts>& all,
                                          const variant_goal& goal,
                                          uint64_t nodes = 100'000);

/// Removes one instance of a variant, or replaces a variant.
struct variant_reduction {
  size_t from = 0;
  std::optional<size_t> to; ///< nothing: only one instance of `from` less
  uint64_t added = 0;       ///< instances of `to`
  double saved = 0;         ///< cost per second
};

/// The changes that save cost while the rate is served (section 4.2.2, scaling
/// down), the largest saving first. At least one instance stays. A downgrade
/// replaces all instances of a variant; `downgrade`: whether downgrades count.
std::vector<variant_reduction>
cheaper_plans(const std::vector<variant_facts>& all, const variant_goal& goal,
              bool downgrade);

} // namespace millrace
