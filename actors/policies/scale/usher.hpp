// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/policies/scale/periodic_policy.hpp"
#include "actors/policies/scale/usher_plan.hpp"

namespace millrace {

struct usher_options {
  std::string metric;
  std::string device;
  double rate = 0;
  std::string rates;
  microseconds window{10'000'000};
  microseconds renew{0};
  std::string groups;
  uint64_t group_size = 4;
  uint64_t factors = 6;
  double heavy = 1.2;
  bool shares = true;
  uint64_t concurrency = 1;
  uint64_t placements = 1'000'000;
  MILLRACE_FIELDS(usher_options, metric, device, rate, rates, window, renew,
                  groups, group_size, factors, heavy, shares, concurrency,
                  placements)
  static constexpr auto notes() {
    return std::array{
      note{"the metric of the profile that is the compute demand, in percent of"
           " a device: ao_percent (default of usher), wao_percent (default of"
           " wao-usher), wsm_percent"},
      note{"the kind of the devices; default: the only kind that the profiles"
           " of the models have"},
      note{"requests per second of each model; 0: as measured", 0, 1e6},
      note{"of some models, with ; between them: 'bert 300; gpt2 150'"},
      note{"the time that the measured rate of arrivals is taken over; whole"
           " seconds",
           1, 60},
      note{"after how long measured rates are taken again; 0: never", 0,
           86'400},
      note{"the groups of models in the order of their placement, with ;"
           " between them: 'bert resnet50; vgg19'; default: by a matching of"
           " their demands"},
      note{"models in a group, at most; groups are formed in as many rounds as"
           " its binary logarithm",
           1, 64},
      note{"multiples of a model's least replica count to try, at most", 1, 64},
      note{"a model is compute heavy when its compute demand is this many times"
           " its memory demand, and memory heavy the other way round",
           1, 100},
      note{"whether a replica is limited to its compute demand as its share of"
           " the device; false: every replica may use the whole device"},
      note{"batches that a replica runs at once", 1, 256},
      note{"placements to try for a group; then the best so far counts", 1,
           1e9}};
  }
};

/// Policies `usher` and `wao-usher`: the replicas of all models of a scope on a
/// fixed set of devices, by the heuristic of Usher (OSDI 2024) as the
/// interference framework (thesis 505, section 3.3) re-implements it. The
/// policies differ only in the default of `metric`.
///
/// Each group has one replica on one device, its batch size, and the compute
/// demand as its share. A model that is not served has a group of 0 replicas.
/// Latency, compute demand and memory come from the profile of the model alone,
/// at the batch sizes of the profile. Batches slower than the SLO (without an
/// SLO: the deadline) are discarded. Expected goodput assumes the whole device
/// even with a share, as in the thesis.
///
/// All devices of the kind, except on draining nodes, are treated as empty.
/// `scaling.max` and `min` have no effect; `parts` and `cuts` are ignored,
/// because replicas are whole. Without a profile or a known rate, a model keeps
/// its replicas. A plan changes only with the devices, the models, the profiles
/// and the rates.
///
/// The thesis computes the plan once; `renew` is an extension. The open points
/// of the paper are decided in usher_plan.hpp.
///
/// Remembers, by model: `rate` (requests/s, when measured); `renewed` (the time
/// of the measurement, in seconds); and `due`.
class usher_scaling : public periodic_policy {
public:
  /// Errors: bad_request with the option, for a text of another form or a
  /// repeated model.
  static result<std::shared_ptr<const scaling_policy>>
  make(const std::string& scope, usher_options options);

  usher_scaling(std::string scope, usher_options options,
                std::map<std::string, double> rates,
                std::vector<std::vector<std::string>> groups)
    : periodic_policy(std::move(scope)),
      options_(std::move(options)),
      rates_(std::move(rates)),
      groups_(std::move(groups)) {}

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const override;

private:
  /// The inputs of a plan.
  struct problem;

  void find_kind(problem& task) const;
  void find_rates(problem& task, policy_memory& memory, double now) const;
  void add_model(problem& task, const model_state& model) const;
  usher_groups groups_of(problem& task) const;
  void write(problem& task, const usher_plan& plan) const;

  usher_options options_;
  std::map<std::string, double> rates_; ///< configured, requests/s, by model
  /// Configured; empty: by demand.
  std::vector<std::vector<std::string>> groups_;
};

/// Policy `wao-usher`: usher by weighted average achieved occupancy.
class wao_usher_scaling {
public:
  static result<std::shared_ptr<const scaling_policy>>
  make(const std::string& scope, usher_options options) {
    if (options.metric.empty())
      options.metric = "wao_percent";
    return usher_scaling::make(scope, std::move(options));
  }
};

} // namespace millrace
