// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/policies/predict/forecast.hpp"
#include "actors/policies/predict/sharing_model.hpp"
#include "actors/policies/scale/periodic_policy.hpp"
#include "models/device/sharing.hpp"

namespace millrace {

/// How a kind of device is chosen among the kinds that can serve the load.
enum class paldia_choice : uint8_t {
  escalate, ///< the cheapest that meets the SLO (section III)
  slack     ///< the cheapest within `slack` of the fastest (algorithm 1)
};

constexpr auto names_of(paldia_choice) {
  return name_table{"escalate", "slack"};
}

/// The law of contention that the policy plans with.
enum class paldia_law : uint8_t {
  profiled,   ///< measured with 1, 2 and more batches at once, else linear
  linear,     ///< by the measured part of the memory bandwidth
  superlinear ///< the same, with `exponent`
};

constexpr auto names_of(paldia_law) {
  return name_table{"profiled", "linear", "superlinear"};
}

struct paldia_options {
  std::string prices;
  paldia_choice choose = paldia_choice::escalate;
  microseconds slack{50'000};
  uint64_t wait = 3;
  sharing_mode sharing = sharing_mode::wave;
  split_objective objective = split_objective::max_on_time;
  paldia_law law = paldia_law::profiled;
  double exponent = 1;
  microseconds margin{3'000};
  double reserve = 2;
  microseconds gather{1'000'000};
  forecast_options forecast{};
  MILLRACE_FIELDS(paldia_options, prices, choose, slack, wait, sharing,
                  objective, law, exponent, margin, reserve, gather, forecast)
  static constexpr auto notes() {
    return std::array{
      note{"the kinds of devices to choose from, with the price of an hour:"
           " m60 0.75; v100 3.06"},
      note{"escalate: the cheapest kind with the last request within the SLO;"
           " slack: the cheapest kind within slack of the fastest"},
      note{"slack: seconds by which the chosen kind may be slower than the"
           " fastest",
           0, 60},
      note{"mismatches in a row before the kind changes", 0, 1000},
      note{"how a device is shared: wave, as the split has it; cap, at most as"
           " many batches as have the highest throughput; space, all; time, one"
           " at a time; lanes, as configured"},
      note{"of the split: min_tmax, the last request as early as possible;"
           " max_on_time, as many requests within the SLO as possible"},
      note{"of contention: profiled, as measured with several batches at once;"
           " linear and superlinear, by the measured part of the memory"
           " bandwidth"},
      note{"superlinear: the power of the number of batches beyond 1", 0, 4},
      note{
        "with wave and max_on_time: the part of the SLO that a request spends"
        " on its way",
        0, 60},
      note{"with wave and max_on_time: standard deviations (square roots of N)"
           " above the forecast that the split is planned for",
           0, 10},
      note{"planned requests (N): the arrivals of a time of this length, which"
           " come together",
           0.001, 60},
      note{"of the requests of the next second, by those of the last ones"}};
  }
};

/// Policy `paldia`: a kind of device for each model by its forecast rate of
/// arrivals, and how batches share the device (PALDIA, section IV and algorithm
/// 1). Execution times, contention and memory bandwidth come from the cost
/// book. The model has `min` replicas on that kind, at least 1. The split
/// becomes the sharing of all devices of the kind. When the kind changes, the
/// group keeps its id, so that the old replica serves until the new replica is
/// ready. Machines of the scope's pool are requested for the new replica.
///
/// With `wave` and `max_on_time` batches are small enough for most requests to
/// be on time (section IV: the batch size is flexible).
///
/// Decided here, because the paper leaves it open or is wrong:
///
/// - The period and the smoothing factor are `every` of the scope and `alpha`.
/// - N is the number of requests within the time `gather`.
/// - A load without contention is no reason to escalate (C2).
/// - Both rules of choice are implemented.
/// - A kind without measured contention and bandwidth, such as a CPU, runs one
///   batch after the other. If it is able and cheaper than all others, it is
///   chosen, as in algorithm 1.
/// - When no kind is able, the fastest kind is chosen (section V-C,
///   exhaustion).
///
/// Remembers, by model: `kind` (number in the order of prices), `mismatches`;
/// and `due`.
class paldia_scaling : public periodic_policy {
public:
  static result<std::shared_ptr<const scaling_policy>>
  make(const std::string& scope, const paldia_options& options);

  struct priced_kind {
    std::string kind;
    double price = 0; ///< of an hour
  };

  paldia_scaling(std::string scope, paldia_options options,
                 std::vector<priced_kind> kinds)
    : periodic_policy(std::move(scope)),
      options_(std::move(options)),
      kinds_(std::move(kinds)) {}

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const override;

private:
  /// A kind of device, with the prediction of the model.
  struct candidate {
    size_t kind = 0;    ///< index in kinds_
    device_split split; ///< for the forecast requests
    device_split wave;  ///< sharing of the device
    uint64_t cap = 1;   ///< batches at once with the highest throughput
    bool able = false;  ///< the last request is within the SLO
  };

  /// Costs of a model on one kind.
  struct kind_facts {
    double solo = 0;                 ///< seconds of a full batch alone
    std::vector<double> slowdowns{}; ///< of 1, 2, ... batches; empty: unknown
  };
  using lane_list = std::vector<std::optional<uint64_t>>; ///< by kind
  /// The inputs of kind_facts.
  struct known_costs {
    std::shared_ptr<const model_profiles> profiles;
    std::shared_ptr<const model_averages> averages;
    uint64_t batch = 0;
    lane_list lanes{};
    friend bool operator==(const known_costs&, const known_costs&) = default;
  };
  struct model_facts {
    known_costs of;
    std::vector<kind_facts> facts; ///< by kind
  };

  lane_list lanes_of_kinds(const cluster_snapshot& in) const;
  kind_facts facts_on(const cluster_snapshot& in, const model_state& model,
                      const std::string& kind, uint64_t lanes) const;
  const std::vector<kind_facts>& facts_of(const cluster_snapshot& in,
                                          const model_state& model,
                                          const lane_list& lanes) const;
  shared_load with_reserve(shared_load load) const;
  std::vector<candidate> candidates_for(const cluster_snapshot& in,
                                        const model_state& model,
                                        uint64_t requests,
                                        const lane_list& lanes) const;
  const candidate* choose(const std::vector<candidate>& from) const;
  device_sharing sharing_of(const candidate& chosen) const;
  std::string explain(const candidate& chosen, uint64_t requests,
                      size_t served_by) const;
  void decide(const cluster_snapshot& in, const model_state& model,
              const lane_list& lanes, policy_memory& memory,
              proposal& out) const;

  paldia_options options_;
  std::vector<priced_kind> kinds_; ///< by rising price
  /// By model. A cache: derived from the snapshot only.
  mutable std::map<std::string, model_facts> facts_;
};

} // namespace millrace
