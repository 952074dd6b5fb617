// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The steps of policy `quart` on the stages of one pipeline, as pure
/// functions.

#include <cstdint>
#include <vector>

#include "actors/policies/predict/queueing.hpp"

namespace millrace {

/// A stage of a pipeline, at one decision.
struct quart_stage {
  queueing_station station; ///< with the ready replicas as servers
  double delay = 0;         ///< T_i, seconds
  bool measured = false;    ///< enough batches for a measured delay
  double target = 0;        ///< T_target, seconds
  double error = 0;         ///< (delay - target) / target, clipped
  uint64_t count = 1;       ///< replicas wanted before the decision
  uint64_t ready = 0;
  bool congested = false; ///< the delay exceeds the target
  bool may_step = true;   ///< the last change has taken effect
  uint64_t step = 1;      ///< replicas that the PID controller adds
  uint64_t wanted = 1;    ///< replicas after the decision
  bool key = false;       ///< congested now or recently
};

struct pid_gains {
  double proportional = 1, integral = 0.1, derivative = 0.1;
};

struct pid_state {
  double integral = 0;
  double error = 0; ///< at the last step
};

/// K_p e + K_i (integral of e) + K_d de/dt (QUART, equations 2 and 3), with the
/// error as (delay - target) / target: the printed sign would take replicas
/// from an overloaded stage. While `frozen`, the integral stays. The integral
/// is limited to +-10.
double pid_step(const pid_gains& gains, pid_state& state, double error,
                double seconds, bool frozen);

/// Limits of one pipeline.
struct sizing_limits {
  uint64_t each_max = 1; ///< replicas of one stage
  uint64_t sum_max = 0;  ///< replicas of all stages; 0: no limit
  double drain = 1;      ///< seconds within which a backlog is worked off
  delay_formula formula = delay_formula::allen_cunneen;
};

/// Sizes the first congested stage and all later stages together, for the rate
/// of arrivals and the backlog of the congested stages, because a wider stage
/// forwards its backlog to the next one. If the delay exceeds the target
/// although the formula finds the present count sufficient, adds `step`
/// replicas. On shortage, the stage with the least capacity gets the next
/// replica: a chain runs at the rate of its narrowest stage.
void size_jointly(std::vector<quart_stage>& stages,
                  const sizing_limits& limits);

/// Sizes each congested stage by its PID step. On shortage the stage with the
/// largest error comes first (QUART, section 5.1, algorithm 1).
void size_by_error(std::vector<quart_stage>& stages,
                   const sizing_limits& limits);

/// QUART, equation 7: the mean of a stage's own count, with weight beta(cv) =
/// cv / (1 + cv), and of the counts of its neighbours in the chain, with weight
/// 1 - beta. The paper leaves beta open. This beta rises with the CV, because a
/// stage with bursts needs its own replicas.
double smoothed_count(const std::vector<quart_stage>& stages, size_t i,
                      double cv);

} // namespace millrace
