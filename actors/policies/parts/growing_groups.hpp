// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/parts/start_plan.hpp"
#include "transport/messages/decision.hpp"

namespace millrace {

/// Copies of a model that started together as groups of parts: each part on a
/// device of its own, until all of these devices have a whole replica.
struct burst {
  uint64_t number = 1; ///< the least number without another burst of the model
  std::vector<uint64_t> cuts;
  uint64_t groups = 1;

  uint64_t parts() const { return cuts.size() + 1; }
  uint64_t devices() const { return groups * parts(); }
};

/// The replicas of a model with `scaling.parts: auto`.
struct grown {
  uint64_t wholes = 0;
  std::vector<burst> bursts; ///< by number

  uint64_t devices() const;
};

/// Turns completed bursts into whole replicas. A burst is complete when none of
/// its parts is left and its devices have whole replicas (Flashpoint, section
/// 4.2.5).
void take_completed(grown& growth, const model_load& load);

/// Releases `devices` devices, never more: groups of parts before whole
/// replicas, those with most parts first; a group of more parts than are left
/// to release stays (Flashpoint, section 4.2.6).
void release(grown& growth, uint64_t devices);

/// Requests per second that the ready replicas of a model can answer, whole
/// ones and groups of parts (eq. 4.13); a group answers as often as its slowest
/// part. `execute`: seconds of one request, by layer.
double served_rate(const model_load& load, const std::vector<double>& execute);

/// The groups of a model with `scaling.parts: auto`. The exact partition plan
/// cuts each scale-up for the requests and devices at hand (Flashpoint,
/// sections 4.2.2 to 4.2.6). Devices of hosts with the loaded model get whole
/// replicas; best_deployment divides the other devices. `count` is the number
/// of devices that the model is to have; each has a whole replica in the end.
///
/// The memory has "MODEL/wholes", and "MODEL/burst NUMBER CUT,CUT" with the
/// number of groups. A controller without a memory rebuilds both from the
/// replicas that run. `reason` gets the started groups and the inputs of the
/// plan.
std::vector<replica_group>
growing_groups(const model_state& model, const model_load& load,
               const cluster_snapshot& in, uint64_t count,
               const plan_options& options, start_planners& planners,
               policy_memory& memory, std::string& reason);

/// Devices with a replica of a model that runs or starts; a whole replica that
/// is loaded beside a part is on the same device.
uint64_t devices_there(const model_load& load);

} // namespace millrace
