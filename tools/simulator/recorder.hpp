// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "simulator/machines.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// A request of a run. Times count from the start of the workload.
struct request_row {
  uint32_t part = 0;    ///< of the workload
  uint32_t model = 0;   ///< the model that answered, else the requested one;
                        ///< index of names
  uint32_t replica = 0; ///< index of names; 0: none
  uint32_t batch = 0;
  uint32_t function = 0;
  std::optional<ec> status; ///< status of the answer; empty: no answer
  microseconds sent{0};
  microseconds ended{-1}; ///< time of the answer, or of the broken connection;
                          ///< -1: neither
  microseconds queue{0};
  microseconds execute{0};
  microseconds gathered{0};     ///< part of queue
  microseconds interference{0}; ///< part of execute
};

/// "ok" or another status, "(connection lost)", or "(no answer)".
std::string outcome_of(const request_row& row);

/// A batch that ran at one stage.
struct batch_row {
  uint32_t id = 0;    ///< equal at all stages
  size_t replica = 0; ///< number of its row in replicas, from 1; 0: unknown
  size_t first_layer = 0, last_layer = 0; ///< layers of the stage; last_layer
                                          ///< is one past the last
  /// When the stage before had run the batch; at the first stage, when the
  /// client sent the batch's first request.
  microseconds arrived{0};
  uint32_t device = 0; ///< index of names: NODE/DEVICE
  uint32_t model = 0;
  uint32_t requests = 0;
  uint32_t lane = 0;
  bool ok = true;
  size_t first = 0; ///< index of the batch's first request id in batch_requests
  microseconds started{0};
  microseconds ended{0};
};

/// A replica on a device, from the begin of its load to its end.
struct replica_row {
  uint32_t device = 0;
  uint32_t model = 0;
  /// The source of the replica's bytes: memory or host (memory or disk of its
  /// host), hosts (another host), store.
  std::string source = "memory";
  /// When placement decided to start the replica; empty: the node began the
  /// load without a decision, as after a restart.
  std::optional<microseconds> decided;
  microseconds begun{0};             ///< the device began to load
  std::optional<microseconds> ready; ///< empty: never
  std::optional<microseconds> ended; ///< empty: still there at the end
  /// Decided on and not loaded at the end of the run; `begun` is then unset.
  bool starts() const { return !ready && !ended; }
  /// Until all bytes were in the host's memory; when streamed (emulate.steps),
  /// the device loads meanwhile.
  microseconds fetch{0};
};

/// Any other event.
struct event_row {
  microseconds at{0};
  std::string what; ///< "component.event key=value ...", as in the log
  log_level level = log_level::info;
};

/// Interns names; number 0 is the empty name.
class name_list {
public:
  uint32_t number_of(const std::string& name);
  const std::string& operator[](uint32_t n) const { return names_[n]; }
  size_t size() const { return names_.size(); }

private:
  std::vector<std::string> names_{std::string{}};
  std::map<std::string, uint32_t> numbers_{{"", 0}};
};

/// The records of a run.
struct record {
  microseconds length{0};
  name_list names;
  std::vector<request_row> requests; ///< by id, from 1 on
  std::vector<batch_row> batches;
  std::vector<uint64_t> batch_requests; ///< ids
  std::vector<replica_row> replicas;
  std::vector<event_row> events;
  std::map<std::string, microseconds> reserved; ///< node to the time that its
                                                ///< replicas reserved
  std::map<std::string, uint64_t> faults;       ///< faults begun, by kind
  uint64_t store_bytes = 0;                     ///< sent by the object store
  std::vector<link_use> links;       ///< during the workload; empty: unknown
  uint64_t errors = 0;               ///< events at which a person must act
  std::vector<machine_lease> leases; ///< leases of machines and of other hosts
};

/// Records a run.
class recorder : public watcher {
public:
  /// `begin`: when the workload starts, in the world's time.
  recorder(timestamp begin, microseconds length);

  /// Returns the records, completed at the end of the run.
  record take();

  void on_sent(const sent_request& request) override;
  void on_reply(const session& to, uint64_t id, const infer_reply& reply,
                timestamp when) override;
  void on_cut_short(uint64_t id, timestamp when) override;
  void on_object_sent(const std::string& node, const std::string& path,
                      uint64_t bytes) override;
  void on_executed(const executed_batch& batch) override;
  void on_loaded(const device_name& where, const load_request& request,
                 timestamp begun, const result<load_report>& how,
                 timestamp when) override;
  void on_unloaded(const device_name& where, instance_id instance,
                   timestamp when) override;
  void on_node(const std::string& node, std::string_view what,
               timestamp when) override;
  void on_machine(const std::string& machine, std::string_view what,
                  timestamp when) override;
  void on_log(log_level level, std::string_view line, timestamp when) override;

private:
  struct decision {
    std::string replica; ///< MODEL.VERSION.NUMBER
    microseconds at{0};
    bool starts = false; ///< the node accepts the order; false: the order may
                         ///< be stale
  };

  microseconds since_start(timestamp time) const {
    return to_us(time - begin_);
  }
  void gone(const std::string& node, timestamp when);
  void on_decision(std::string_view event, timestamp when);
  void forget_decision(std::string_view replica);
  void add_starting();
  std::optional<decision> take_decision(const std::string& device,
                                        const std::string& model);
  void on_starting(std::string_view replica);
  void on_ready(std::string_view event);
  void follow(batch_row& row, const std::vector<uint64_t>& requests);

  timestamp begin_;
  record record_;
  lease_book book_;
  std::map<std::string, size_t> copies_;      ///< NODE/DEVICE#INSTANCE -> row
  std::map<std::string, timestamp> up_since_; ///< by node
  std::map<std::string, size_t> loaded_;      ///< replica to row, until ready
  /// Decisions to start a replica, until the load begins.
  std::map<std::string, std::vector<decision>> decided_; ///< by NODE/DEVICE
  std::map<uint64_t, size_t> last_batch_; ///< row of a request's last batch
  uint32_t batch_ids_ = 0;
};

} // namespace millrace::simulator
