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
  uint32_t part = 0;     ///< of the workload
  uint32_t function = 0; ///< with arrivals of functions
  session from;
  std::string gateway; ///< empty: none was there
  std::string model;   ///< empty: any of an application
  std::string application;
  uint64_t bytes = 0; ///< of its inputs
  timestamp when;
  timestamp due; ///< far_future: the model's deadline
};

/// Where a device is.
struct device_name {
  const std::string& node;
  const std::string& device;
};

/// "NODE/DEVICE".
inline std::string to_string(const device_name& x) {
  return x.node + "/" + x.device;
}

/// A batch that a device was given: how it ends is not known yet.
struct given_batch {
  device_name where;
  const std::string& model;
  const std::vector<uint64_t>& requests; ///< their ids
  bool begins; ///< on the model's first layer: the others are run behind it
  instance_id instance = 0;               ///< of the replica
  size_t first_layer = 0, last_layer = 0; ///< of the replica; one past the last
};

/// One that it has run, for better or worse.
struct executed_batch : given_batch {
  uint32_t lane;
  timestamp started;
  timestamp ended;
  bool ok;
};

/// A row of a node's durable facts; of no value: deleted.
struct stored_fact {
  const std::string& node;
  const std::string& table;
  const stored_row& row;
};

/// What happens to it.
enum class store_event : uint8_t {
  asked,   ///< an actor wants it written
  told,    ///< the store says that it is on disk
  refused, ///< or that it is not: another came first, it is too large
  unsure,  ///< or that the disk failed
};

/// Sees what happens in a simulated cluster, in order: what records, and what
/// checks that promises hold. All points in time are the world's.
class watcher : public simulated_outside {
public:
  // -- clients, beside simulated_outside's answers ----------------------------

  virtual void on_sent(const sent_request&) {}
  /// The client does not want the answer any more.
  virtual void on_cancelled(uint64_t /*id*/, timestamp /*when*/) {}
  /// The connection to the request's gateway broke: no answer can come.
  virtual void on_cut_short(uint64_t /*id*/, timestamp /*when*/) {}

  // -- nodes and devices ------------------------------------------------------

  /// A node's process was started, ended, paused or went on.
  virtual void on_node(const std::string& /*node*/, std::string_view /*what*/,
                       timestamp /*when*/) {}
  /// A machine of a pool was `requested`, told to drain (`draining`) or
  /// `released`, or its boot was `killed`; a host got its first replica
  /// (`in_use`) or lost its last one (`idle`).
  virtual void on_machine(const std::string& /*machine*/,
                          std::string_view /*what*/, timestamp /*when*/) {}
  /// The object store begins to send a part of a file to a host.
  virtual void on_object_sent(const std::string& /*node*/,
                              const std::string& /*path*/, uint64_t /*bytes*/) {
  }
  /// A device was told to load a model: from now on it needs the room.
  virtual void on_load_begun(const device_name&, const load_request&,
                             timestamp /*when*/) {}
  virtual void on_loaded(const device_name&, const load_request&,
                         timestamp /*begun*/, const result<load_report>&,
                         timestamp /*when*/) {}
  virtual void on_unloaded(const device_name&, instance_id,
                           timestamp /*when*/) {}
  virtual void on_given(const given_batch&, timestamp /*when*/) {}
  virtual void on_executed(const executed_batch&) {}
  /// It could not begin with that batch: as if it had not been given.
  virtual void on_returned(const given_batch&, timestamp /*when*/) {}

  // -- durable facts ---------------------------------------------------------

  virtual void on_store(const stored_fact&, store_event) {}
  /// What a node finds on its disk as it starts.
  virtual void on_recovered(const std::string& /*node*/, const fact_tables&,
                            timestamp /*when*/) {}

  // -- the run ----------------------------------------------------------------

  /// So many messages at one moment: time stands still.
  virtual void on_stuck(uint64_t /*messages*/, timestamp /*when*/) {}
  virtual void on_log(log_level, std::string_view /*line*/,
                      timestamp /*when*/) {}
};

/// Tells several watchers, one after the other.
class broadcast : public watcher {
public:
  void add(watcher& x) { all_.push_back(&x); }
  void clear() { all_.clear(); }

  void on_read(const member& gateway, uint64_t id, timestamp when) override {
    tell(&watcher::on_read, gateway, id, when);
  }
  void on_cancel_read(const member& gateway, uint64_t id,
                      timestamp when) override {
    tell(&watcher::on_cancel_read, gateway, id, when);
  }
  void on_answered(const member& gateway, uint64_t id, const infer_reply& x,
                   timestamp when) override {
    tell(&watcher::on_answered, gateway, id, x, when);
  }
  void on_reply(const session& to, uint64_t id, const infer_reply& x,
                timestamp when) override {
    tell(&watcher::on_reply, to, id, x, when);
  }
  void on_operator_answer(const std::string& node, uint64_t id,
                          const caf::message& x) override {
    tell(&watcher::on_operator_answer, node, id, x);
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
  void on_sent(const sent_request& x) override { tell(&watcher::on_sent, x); }
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
  void on_load_begun(const device_name& where, const load_request& x,
                     timestamp when) override {
    tell(&watcher::on_load_begun, where, x, when);
  }
  void on_loaded(const device_name& where, const load_request& x,
                 timestamp begun, const result<load_report>& how,
                 timestamp when) override {
    tell(&watcher::on_loaded, where, x, begun, how, when);
  }
  void on_unloaded(const device_name& where, instance_id x,
                   timestamp when) override {
    tell(&watcher::on_unloaded, where, x, when);
  }
  void on_given(const given_batch& x, timestamp when) override {
    tell(&watcher::on_given, x, when);
  }
  void on_returned(const given_batch& x, timestamp when) override {
    tell(&watcher::on_returned, x, when);
  }
  void on_executed(const executed_batch& x) override {
    tell(&watcher::on_executed, x);
  }
  void on_store(const stored_fact& x, store_event what) override {
    tell(&watcher::on_store, x, what);
  }
  void on_recovered(const std::string& node, const fact_tables& x,
                    timestamp when) override {
    tell(&watcher::on_recovered, node, x, when);
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
