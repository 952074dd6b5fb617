// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "actors/policies/scale/periodic_policy.hpp"
#include "actors/policies/scale/quart_control.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// The source of the delay T_i of a stage.
enum class quart_delay : uint8_t {
  measured,      ///< wait and run, as counted
  erlang_c,      ///< M/M/c
  allen_cunneen, ///< G/G/c
  printed        ///< equation 1 as printed, which stays bounded at full load
};

constexpr auto names_of(quart_delay) {
  return name_table{"measured", "erlang_c", "allen_cunneen", "printed"};
}

/// How added replicas are spread over the stages.
enum class quart_sizing : uint8_t {
  joint,        ///< all stages from the first congested one on
  largest_error ///< each stage by itself
};

constexpr auto names_of(quart_sizing) {
  return name_table{"joint", "largest_error"};
}

/// How replicas are taken away.
enum class quart_smoother : uint8_t {
  laplace, ///< not below the mean with the neighbours' counts (equation 7)
  safe,    ///< as far as the predicted delay allows
  off      ///< never
};

constexpr auto names_of(quart_smoother) {
  return name_table{"laplace", "safe", "off"};
}

struct quart_options {
  quart_delay delay = quart_delay::measured;
  bool corrector = true;
  quart_smoother smoother = quart_smoother::laplace;
  quart_sizing sizing = quart_sizing::joint;
  double slo_part = 1;
  double stretch = 3;
  std::string targets;
  double busy = 1;
  double kp = 1;
  double ki = 0.1;
  double kd = 0.1;
  double error_max = 5;
  uint64_t samples = 30;
  uint64_t total = 0;
  microseconds window{10'000'000};
  microseconds drain{1'000'000};
  microseconds settle{2'500'000};
  microseconds cooldown{10'000'000};
  microseconds quiet{10'000'000};
  MILLRACE_FIELDS(quart_options, delay, corrector, smoother, sizing, slo_part,
                  stretch, targets, busy, kp, ki, kd, error_max, samples, total,
                  window, drain, settle, cooldown, quiet)
  static constexpr auto notes() {
    return std::array{
      note{"the delay of a stage: measured, or by the formula of M/M/c"
           " (erlang_c), of G/G/c (allen_cunneen), or equation 1 as printed"},
      note{"whether stages over their target get replicas"},
      note{"how stages lose replicas: laplace, not below the mean with the"
           " neighbours' counts; safe, as far as the predicted delay allows;"
           " off, never"},
      note{"joint: the first congested stage and those behind it together;"
           " largest_error: each congested stage by its PID step"},
      note{"the part of the model's SLO that the targets of the stages add up"
           " to, in proportion to their execution times",
           0.01, 1},
      note{
        "without an SLO: the target of a stage as a multiple of its execution"
        " time",
        1, 1000},
      note{
        "the targets, one per stage with commas between them: 20ms,60ms,20ms;"
        " default: from the SLO"},
      note{"the part of their time that replicas are busy at most, by the rate"
           " of arrivals",
           0.01, 1},
      note{"gain of the PID controller: proportional", 0, 100},
      note{"integral, per second", 0, 100},
      note{"derivative, in seconds", 0, 100},
      note{"the largest relative error that the controller sees", 0.1, 1000},
      note{"batches in 2 s that a measured delay needs; with fewer batches the"
           " formula of G/G/c counts",
           1, 1e6},
      note{"replicas of all stages of a model together, at most; 0: no limit",
           0, 1e6},
      note{"the time that the rate of arrivals is taken over from which counts"
           " start; whole seconds",
           1, 60},
      note{"a backlog is to be worked off within that time", 0.01, 3600},
      note{"how long a change takes to show in measured delays", 0, 3600},
      note{"the time for which a stage that got replicas loses none", 0,
           86'400},
      note{
        "a stage is no longer a key stage after this time with its delay within"
        " the target",
        0, 86'400}};
  }
};

/// Policy `quart`: replicas of each stage of a pipeline by its delay (QUART,
/// sections 5.1 and 5.2). A stage with a delay above its target is a key stage
/// and gets replicas. Other stages may lose replicas while the predicted delay
/// stays within the target. Replica counts start from the rate of arrivals.
///
/// Decided here, because the paper leaves it open or is wrong:
///
/// - The sign of the error, and the gains.
/// - The integral is frozen while replicas start or the limit is reached.
/// - The SLO is split over the stages by execution time.
/// - Sizing is joint, because a chain runs at the rate of its narrowest stage.
/// - Equation 7 takes no replica that the delay formula needs.
/// - A count that was too small is not tried again at the same load.
///
/// The CV of later stages is predicted without training
/// (predict/variation.hpp).
///
/// The groups are those of the short form `parts` or `cuts`. `min` and `max` of
/// the model hold for each stage, and a stage has at least one replica.
/// `complete` is refused.
///
/// Remembers, by model and stage number: `count`, `integral`, `error`, `raised`
/// and `congested` (seconds), `small` (a count that was too small) and
/// `offered` (the load at that time, in replicas); `ticked`; and `due`.
class quart_scaling : public periodic_policy {
public:
  static result<std::shared_ptr<const scaling_policy>>
  make(const std::string& scope, const quart_options& options);

  quart_scaling(std::string scope, quart_options options,
                std::vector<double> targets)
    : periodic_policy(std::move(scope)),
      options_(std::move(options)),
      targets_(std::move(targets)) {}

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const override;

private:
  /// The decision on one model.
  struct decision_on;

  void decide(decision_on& decision) const;
  bool observe(decision_on& decision) const;
  void set_targets(decision_on& decision) const;
  void find_delays(decision_on& decision) const;
  void correct(decision_on& decision) const;
  void smooth(decision_on& decision) const;
  void explain(decision_on& decision) const;

  quart_options options_;
  std::vector<double> targets_; ///< seconds; empty: from the SLO
};

} // namespace millrace
