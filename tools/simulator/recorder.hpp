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

/// One request of a run. Points in time count from the start of the workload.
struct request_row {
  uint32_t part = 0;    ///< of the workload
  uint32_t model = 0;   ///< who answered, or was asked; index of names
  uint32_t replica = 0; ///< index of names; 0: none
  uint32_t batch = 0;
  uint32_t function = 0;
  std::optional<ec> status; ///< of its answer; none came
  microseconds sent{0};
  microseconds ended{-1}; ///< answered, or its connection broke; -1: neither
  microseconds queue{0};
  microseconds execute{0};
  microseconds gathered{0};     ///< of queue
  microseconds interference{0}; ///< of execute
};

/// "ok" or another status, "(connection lost)", or "(no answer)".
std::string outcome_of(const request_row& x);

/// A batch that ran at one stage.
struct batch_row {
  uint32_t id = 0;    ///< the same at each stage
  size_t replica = 0; ///< number of its row in replicas, from 1; 0: unknown
  size_t first_layer = 0, last_layer = 0; ///< of the stage; one past the last
  /// At the stage: when the stage before had run; at the first stage, when its
  /// first request was sent.
  microseconds arrived{0};
  uint32_t device = 0; ///< index of names: NODE/DEVICE
  uint32_t model = 0;
  uint32_t requests = 0;
  uint32_t lane = 0;
  bool ok = true;
  size_t first = 0; ///< of its requests' ids, in batch_requests
  microseconds started{0};
  microseconds ended{0};
};

/// A copy of a model on a device, from the first byte to its end.
struct replica_row {
  uint32_t device = 0;
  uint32_t model = 0;
  /// Where its bytes were: memory (of its host), host (its disk), hosts
  /// (another one), store.
  std::string source = "memory";
  /// When placement decided to start the replica; none: the node began the
  /// load without a decision, as after a restart.
  std::optional<microseconds> decided;
  microseconds begun{0};             ///< the device began to load
  std::optional<microseconds> ready; ///< never
  std::optional<microseconds> ended; ///< was there at the end
  /// Decided on, and not loaded when the run ended: `begun` means nothing.
  bool starts() const { return !ready && !ended; }
  /// Until its bytes were in its host's memory; with emulate.steps: streamed
  /// the device loads meanwhile.
  microseconds fetch{0};
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
  std::vector<uint64_t> batch_requests; ///< ids
  std::vector<replica_row> replicas;
  std::vector<event_row> events;
  std::map<std::string, microseconds> reserved; ///< time there, by node
  std::map<std::string, uint64_t> faults;       ///< that began, by kind
  uint64_t store_bytes = 0;                     ///< that left the object store
  std::vector<link_use> links;       ///< during the workload; empty: not known
  uint64_t errors = 0;               ///< events at which a person must act
  std::vector<machine_lease> leases; ///< of machines and other hosts
};

/// Writes a run down.
class recorder : public watcher {
public:
  /// `begin` is when the workload starts, in the world's time.
  recorder(timestamp begin, microseconds length);

  /// What there is, as of the end of the run.
  record take();

  void on_sent(const sent_request& x) override;
  void on_reply(const session& to, uint64_t id, const infer_reply& x,
                timestamp when) override;
  void on_cut_short(uint64_t id, timestamp when) override;
  void on_object_sent(const std::string& node, const std::string& path,
                      uint64_t bytes) override;
  void on_executed(const executed_batch& x) override;
  void on_loaded(const device_name& where, const load_request& x,
                 timestamp begun, const result<load_report>& how,
                 timestamp when) override;
  void on_unloaded(const device_name& where, instance_id x,
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
    bool starts = false; ///< the node obeys; else the order may be stale
  };

  microseconds since_start(timestamp x) const { return to_us(x - begin_); }
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
  std::map<std::string, size_t> loaded_;      ///< by replica, until it is ready
  /// Decisions to start a replica that has not loaded yet.
  std::map<std::string, std::vector<decision>> decided_; ///< by NODE/DEVICE
  std::map<uint64_t, size_t> last_batch_; ///< by request: row of its last batch
  uint32_t batch_ids_ = 0;
};

} // namespace millrace::simulator
