// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "actors/policies/scale/periodic_policy.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// How instances are added.
enum class variant_planning : uint8_t {
  greedy, ///< instances of one variant (section 4.2.2)
  exact   ///< the cheapest mixture (section 4.2.1)
};

constexpr auto names_of(variant_planning) {
  return name_table{"greedy", "exact"};
}

struct infaas_options {
  std::string prices;
  variant_planning plan = variant_planning::greedy;
  bool switches = true;
  double slack = 1.05;
  double lambda = 0.1;
  double accuracy = 0;
  double excess = 1.5;
  microseconds slo{0};
  microseconds window{2'000'000};
  microseconds drain{0};
  microseconds wait{0};
  MILLRACE_FIELDS(infaas_options, prices, plan, switches, slack, lambda,
                  accuracy, excess, slo, window, drain, wait)
  static constexpr auto notes() {
    return std::array{
      note{"price of each kind of device, with ; between them, in any currency"
           " per time: of one unit where replicas take units, else of the"
           " device: 'cpu 0.25; inferentia 3; v100 16'"},
      note{"greedy: adds instances of one variant; exact: adds the cheapest"
           " mixture of variants"},
      note{"whether variants other than the running one are added; false:"
           " replicas of the running variant only"},
      note{"capacity is kept above the load times this", 1, 10},
      note{"weight of loading times in the cost of an addition, per second", 0,
           1000},
      note{"variants of less accuracy are not added", 0, 1},
      note{"a variant is interfered when it takes this many times its profiled"
           " time",
           1, 100},
      note{"the SLO that added variants meet by their profile; 0: the smallest"
           " models[].slo of the application, if any",
           0, 86'400},
      note{"the time that load is taken over; whole seconds", 1, 60},
      note{"waiting requests count as load that is served within this time; 0:"
           " only arrivals count",
           0, 3600},
      note{"replicas end once fewer or cheaper ones have done for as long as"
           " their variant takes to load, and for at least this time",
           0, 86'400}};
  }
};

/// Policy `infaas`: the numbers of replicas of the variants of an application
/// (INFaaS, sections 3.2 and 4.2). In a scope `application/NAME` every model is
/// a variant, with the device kind of its settings. When the capacity falls
/// below `slack` times the load, the policy adds replicas of the running
/// variant or of a faster variant, whichever is cheaper. When less capacity or
/// a cheaper variant has sufficed for the loading time of the present variant,
/// replicas of the present variant end.
///
/// Decided here, because the paper leaves it open:
///
/// - One plan covers the application, instead of one plan per worker.
/// - The load is the arrivals of all variants.
/// - A replaced replica stays until its successors are ready.
/// - The last replica stays.
/// - The saturation throughput of a variant is (batches at once) x (rows of a
///   batch) / (time of a batch), by the profile.
/// - An interfered variant counts with its observed time.
/// - A variant with waiting requests and without a replica gets one replica.
///
/// `min` and `max` of each model hold. Models in parts are refused, as are
/// devices without a price.
///
/// Remembers, by model: `count`, and `cheaper_since` (seconds, while a cheaper
/// plan without the variant suffices); and `due`.
class infaas_scaling : public periodic_policy {
public:
  using price_map = std::map<std::string, double>; ///< by device kind

  /// Errors: bad_request with the price.
  static result<std::shared_ptr<const scaling_policy>>
  make(const std::string& scope, const infaas_options& options);

  infaas_scaling(std::string scope, infaas_options options, price_map prices)
    : periodic_policy(std::move(scope)),
      options_(std::move(options)),
      prices_(std::move(prices)) {}

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const override;

private:
  struct variant;
  struct decision_on;

  result<variant> observe(const model_state& model,
                          const decision_on& decision) const;
  void find_costs(variant& v, const decision_on& decision) const;
  void decide(decision_on& decision) const;
  bool add(decision_on& decision) const;
  void start_awaited(decision_on& decision) const;
  void reduce(decision_on& decision) const;
  void write(decision_on& decision, proposal& out) const;

  infaas_options options_;
  price_map prices_;
};

} // namespace millrace
