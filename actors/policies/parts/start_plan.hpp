// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The start of a model on several devices at once, by the costs of the cost
/// book (Flashpoint, sections 4.2 and 5.2.3).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/partition/deployment.hpp"
#include "runtime/limits.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// Options of a partition plan, with `scaling.parts: auto`.
struct plan_options {
  uint64_t parts_max = 0;
  uint64_t requests_max = 3000;
  pipelining stages = pipelining::overlapped;
  bandwidth from_hosts{0};
  bandwidth from_stores{0};
  MILLRACE_FIELDS(plan_options, parts_max, requests_max, stages, from_hosts,
                  from_stores)
  static constexpr auto notes() {
    return std::array{
      note{"with parts auto: parts of one model, at most; 0: one per layer", 0,
           128},
      note{"with parts auto: waiting requests that a plan is made for, at most",
           1, 1e6},
      note{"with parts auto: what the stages of a model in parts do at once;"
           " overlapped, a stage runs a batch while the one before is sent;"
           " handed_on, it sends first; none, one request at a time"},
      note{"with parts auto: bytes per second that a start gets from another"
           " host; 0: as measured, and until then the slowest network link of a"
           " worker",
           0, 1e15},
      note{"with parts auto: the same from an object store; 0: as measured, and"
           " until then as from a host",
           0, 1e15}};
  }
};

/// The source of a model's weights for a start.
struct start_source {
  std::string location = "hosts"; ///< or "stores"
  bandwidth rate;
  /// Devices with room for a first replica of the model, on hosts with the
  /// model in memory: such a start only copies the weights to the device.
  uint64_t primed = 0;
};

/// The nearest source of a model: another host before an object store. The rate
/// comes from the options, else from measured starts (rounded to two digits, so
/// that a plan stays in use), else from the slowest worker's link.
start_source source_of(const cluster_snapshot& in, const model_state& model,
                       const plan_options& options);

/// A planner with the costs of the nearest source, and that source.
struct start_planner {
  std::shared_ptr<const partition_planner> plans;
  start_source source;
  double primed_cold = 0;      ///< seconds, of a start on a primed device
  std::vector<double> execute; ///< seconds of one request, by layer
};

/// Makes planners, and keeps the last one of each model: a planner of 55 layers
/// takes tens of milliseconds. Planners derive from the arguments alone: the
/// same arguments give the same planner.
class start_planners {
public:
  /// Errors: unavailable while the cost book has no profile of all layers of
  /// the model on one kind of device that the settings allow.
  result<start_planner> planner_for(const cluster_snapshot& in,
                                    const model_state& model,
                                    const plan_options& options);

private:
  struct known {
    std::shared_ptr<const model_profiles> profiles;
    std::string device;
    double rate = 0;
    std::shared_ptr<const partition_planner> plans;
    double primed_cold = 0;
    std::vector<double> execute;
  };
  std::map<std::string, known> by_model_;
};

/// Requests to plan for (eq. 4.14): the waiting requests, and the arrivals at
/// `rate` beyond the capacity `served` (requests per second) during a start of
/// `cold` seconds; from 1 to `most`.
uint64_t requests_expected(uint64_t waiting, double rate, double served,
                           double cold, uint64_t most);

} // namespace millrace
