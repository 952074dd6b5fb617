// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "simulator/cluster.hpp"

namespace millrace::simulator {

/// One request of a run. Points in time count from the start of the workload.
struct request_row {
  uint32_t part = 0;    ///< of the workload
  uint32_t model = 0;   ///< who answered, or was asked; index of names
  uint32_t replica = 0; ///< index of names; 0: none
  uint32_t batch = 0;
  uint32_t function = 0;
  ec status = ec::ok;
  uint8_t answers = 0;
  microseconds sent{0};
  microseconds answered{-1};
  microseconds queue{0};
  microseconds execute{0};
};

/// A batch that ran.
struct batch_row {
  uint32_t device = 0; ///< index of names: NODE/DEVICE
  uint32_t model = 0;
  uint32_t requests = 0;
  bool ok = true;
  microseconds started{0};
  microseconds ended{0};
};

/// A copy of a model on a device, from the first byte to its end.
struct replica_row {
  uint32_t device = 0;
  uint32_t model = 0;
  microseconds begun{0};
  microseconds ready{-1}; ///< -1: never
  microseconds ended{-1}; ///< -1: was there at the end
};

/// Something else that happened.
struct event_row {
  microseconds at{0};
  std::string what; ///< "component.event key=value ...", as in the log
  log_level level = log_level::info;
};

/// Texts by number; 0 is the empty one.
class name_list {
public:
  uint32_t number_of(const std::string& x);
  const std::string& operator[](uint32_t n) const { return names_[n]; }
  size_t size() const { return names_.size(); }

private:
  std::vector<std::string> names_{std::string{}};
  std::map<std::string, uint32_t> numbers_{{"", 0}};
};

/// All that is kept of a run.
struct record {
  microseconds length{0};
  name_list names;
  std::vector<request_row> requests; ///< by id, from 1 on
  std::vector<batch_row> batches;
  std::vector<replica_row> replicas;
  std::vector<event_row> events;
  std::map<std::string, microseconds> reserved; ///< node time, by node
  uint64_t messages = 0;                        ///< that actors handled
  uint64_t actions = 0; ///< of the network and the rest of the world
  uint64_t delivered = 0;
  size_t actors = 0; ///< at the end
};

} // namespace millrace::simulator
