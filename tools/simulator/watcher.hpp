// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/device/device.hpp"
#include "runtime/log.hpp"
#include "runtime/store/fact_journal.hpp"
#include "transport/simulated/bus.hpp"

namespace millrace::simulator {

/// A request as its client sent it.
struct sent_request {
  uint64_t id = 0;
  uint32_t part = 0;     ///< index of the workload's part
  uint32_t function = 0; ///< for arrivals of kind functions
  session from;
  std::string gateway; ///< empty: no gateway existed
  std::string model;   ///< empty: any model of an application
  std::string application;
  uint64_t bytes = 0; ///< of the inputs
  timestamp when;
  timestamp due; ///< far_future: use the model's deadline
};

/// A device and its node.
struct device_name {
  const std::string& node;
  const std::string& device;
};

/// "NODE/DEVICE".
inline std::string to_string(const device_name& device) {
  return device.node + "/" + device.device;
}

/// A batch that was given to a device and has not ended.
struct given_batch {
  device_name where;
  const std::string& model;
  const std::vector<uint64_t>& requests; ///< their ids
  bool begins; ///< with the first layer; other layers run in later stages
  instance_id instance = 0;               ///< of the replica
  size_t first_layer = 0, last_layer = 0; ///< of the replica; one past the last
};

/// A batch that a device has run, successfully or not.
struct executed_batch : given_batch {
  uint32_t lane;
  timestamp started;
  timestamp ended;
  bool ok;
};

/// A row of a node's durable state; without a value: deleted.
struct stored_fact {
  const std::string& node;
  const std::string& table;
  const stored_row& row;
};

/// An event of a row.
enum class store_event : uint8_t {
  asked,   ///< an actor requested the write
  told,    ///< the store reported that the row is on disk
  refused, ///< the store refused the row: outdated, or too large
  unsure,  ///< the disk failed; the row may be on disk or not
};

/// Receives the events of a simulated cluster in order, for recorders and
/// invariants. All times are the world's.
class watcher : public simulated_outside {
public:
  // -- clients, beside simulated_outside's answers ----------------------------

  virtual void on_sent(const sent_request&) {}
  /// The client cancelled the request.
  virtual void on_cancelled(uint64_t /*id*/, timestamp /*when*/) {}
  /// The connection to the request's gateway broke; no answer can arrive.
  virtual void on_cut_short(uint64_t /*id*/, timestamp /*when*/) {}

  // -- nodes and devices ------------------------------------------------------

  /// A node's process was started, ended, paused or resumed.
  virtual void on_node(const std::string& /*node*/, std::string_view /*what*/,
                       timestamp /*when*/) {}
  /// A machine of a pool was `requested`, told to drain (`draining`) or
  /// `released`, or its boot was `killed`; a host got its first replica
  /// (`in_use`) or lost its last one (`idle`).
  virtual void on_machine(const std::string& /*machine*/,
                          std::string_view /*what*/, timestamp /*when*/) {}
  /// The object store began to send a part of a file to a host.
  virtual void on_object_sent(const std::string& /*node*/,
                              const std::string& /*path*/, uint64_t /*bytes*/) {
  }
  /// A device began to load a model, and needs the memory from now on.
  virtual void on_load_begun(const device_name&, const load_request&,
                             timestamp /*when*/) {}
  virtual void on_loaded(const device_name&, const load_request&,
                         timestamp /*begun*/, const result<load_report>&,
                         timestamp /*when*/) {}
  virtual void on_unloaded(const device_name&, instance_id,
                           timestamp /*when*/) {}
  virtual void on_given(const given_batch&, timestamp /*when*/) {}
  virtual void on_executed(const executed_batch&) {}
  /// The device could not begin the batch: as if it had not been given.
  virtual void on_returned(const given_batch&, timestamp /*when*/) {}

  // -- durable facts ---------------------------------------------------------

  virtual void on_store(const stored_fact&, store_event) {}
  /// The rows that a node finds on its disk at its start.
  virtual void on_recovered(const std::string& /*node*/, const fact_tables&,
                            timestamp /*when*/) {}

  // -- the run ----------------------------------------------------------------

  /// A livelock: too many messages were handled at one moment.
  virtual void on_stuck(uint64_t /*messages*/, timestamp /*when*/) {}
  virtual void on_log(log_level, std::string_view /*line*/,
                      timestamp /*when*/) {}
};

/// Forwards events to several watchers in order.
class broadcast : public watcher {
public:
  void add(watcher& added) { all_.push_back(&added); }
  void clear() { all_.clear(); }

  void on_read(const member& gateway, uint64_t id, timestamp when) override {
    tell(&watcher::on_read, gateway, id, when);
  }
  void on_cancel_read(const member& gateway, uint64_t id,
                      timestamp when) override {
    tell(&watcher::on_cancel_read, gateway, id, when);
  }
  void on_answered(const member& gateway, uint64_t id, const infer_reply& reply,
                   timestamp when) override {
    tell(&watcher::on_answered, gateway, id, reply, when);
  }
  void on_reply(const session& to, uint64_t id, const infer_reply& reply,
                timestamp when) override {
    tell(&watcher::on_reply, to, id, reply, when);
  }
  void on_operator_answer(const std::string& node, uint64_t id,
                          const caf::message& content) override {
    tell(&watcher::on_operator_answer, node, id, content);
  }
  void on_link(const member& who, const member& whom, bool up) override {
    tell(&watcher::on_link, who, whom, up);
  }
  void on_posted(const member& from, const member& to, const wire_message& what,
                 timestamp when) override {
    tell(&watcher::on_posted, from, to, what, when);
  }
  void on_delivered(const member& from, const member& to, const header& what,
                    timestamp when) override {
    tell(&watcher::on_delivered, from, to, what, when);
  }
  void on_sent(const sent_request& request) override {
    tell(&watcher::on_sent, request);
  }
  void on_cancelled(uint64_t id, timestamp when) override {
    tell(&watcher::on_cancelled, id, when);
  }
  void on_cut_short(uint64_t id, timestamp when) override {
    tell(&watcher::on_cut_short, id, when);
  }
  void on_node(const std::string& node, std::string_view what,
               timestamp when) override {
    tell(&watcher::on_node, node, what, when);
  }
  void on_machine(const std::string& machine, std::string_view what,
                  timestamp when) override {
    tell(&watcher::on_machine, machine, what, when);
  }
  void on_object_sent(const std::string& node, const std::string& path,
                      uint64_t bytes) override {
    tell(&watcher::on_object_sent, node, path, bytes);
  }
  void on_load_begun(const device_name& where, const load_request& request,
                     timestamp when) override {
    tell(&watcher::on_load_begun, where, request, when);
  }
  void on_loaded(const device_name& where, const load_request& request,
                 timestamp begun, const result<load_report>& how,
                 timestamp when) override {
    tell(&watcher::on_loaded, where, request, begun, how, when);
  }
  void on_unloaded(const device_name& where, instance_id instance,
                   timestamp when) override {
    tell(&watcher::on_unloaded, where, instance, when);
  }
  void on_given(const given_batch& batch, timestamp when) override {
    tell(&watcher::on_given, batch, when);
  }
  void on_returned(const given_batch& batch, timestamp when) override {
    tell(&watcher::on_returned, batch, when);
  }
  void on_executed(const executed_batch& batch) override {
    tell(&watcher::on_executed, batch);
  }
  void on_store(const stored_fact& stored, store_event what) override {
    tell(&watcher::on_store, stored, what);
  }
  void on_recovered(const std::string& node, const fact_tables& tables,
                    timestamp when) override {
    tell(&watcher::on_recovered, node, tables, when);
  }
  void on_stuck(uint64_t messages, timestamp when) override {
    tell(&watcher::on_stuck, messages, when);
  }
  void on_log(log_level level, std::string_view line, timestamp when) override {
    tell(&watcher::on_log, level, line, when);
  }

private:
  template <class Base, class... Args, class... Given>
  void tell(void (Base::*what)(Args...), const Given&... xs) {
    for (auto* w : all_)
      (w->*what)(xs...);
  }

  std::vector<watcher*> all_;
};

} // namespace millrace::simulator
