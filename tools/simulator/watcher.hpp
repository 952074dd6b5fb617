// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/log.hpp"
#include "simulator/cluster.hpp"

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
  timestamp when;
  timestamp due; ///< far_future: the model's deadline
};

/// Sees everything that happens in a run, in order: what records, and what
/// checks that promises hold. All points in time are the world's.
class watcher {
public:
  virtual ~watcher() = default;

  virtual void on_sent(const sent_request& x) { static_cast<void>(x); }
  /// The client does not want the answer any more.
  virtual void on_cancelled(uint64_t id, timestamp when) {
    static_cast<void>(id), static_cast<void>(when);
  }
  /// A gateway's answer has reached the client.
  virtual void on_reply(const session& to, uint64_t id, const infer_reply& x,
                        timestamp when) {
    static_cast<void>(to), static_cast<void>(id);
    static_cast<void>(x), static_cast<void>(when);
  }
  /// The connection to the request's gateway broke: no answer can come.
  virtual void on_cut_short(uint64_t id, timestamp when) {
    static_cast<void>(id), static_cast<void>(when);
  }
  virtual void on_fetched(const std::string& node, const std::string& model,
                          std::string_view from) {
    static_cast<void>(node), static_cast<void>(model);
    static_cast<void>(from);
  }
  virtual void on_given(const executed_batch& x, timestamp when) {
    static_cast<void>(x), static_cast<void>(when);
  }
  virtual void on_executed(const executed_batch& x) { static_cast<void>(x); }
  virtual void on_loaded(const std::string& node, const std::string& device,
                         const load_request& x, timestamp begun,
                         const result<load_report>& how, timestamp when) {
    static_cast<void>(node), static_cast<void>(device), static_cast<void>(x);
    static_cast<void>(begun), static_cast<void>(how), static_cast<void>(when);
  }
  virtual void on_unloaded(const std::string& node, const std::string& device,
                           instance_id x, timestamp when) {
    static_cast<void>(node), static_cast<void>(device);
    static_cast<void>(x), static_cast<void>(when);
  }
  virtual void on_node(const std::string& node, std::string_view what,
                       timestamp when) {
    static_cast<void>(node), static_cast<void>(what), static_cast<void>(when);
  }
  /// A node takes another for linked from now on, or no longer.
  virtual void on_link(const member& who, const member& whom, bool up,
                       timestamp when) {
    static_cast<void>(who), static_cast<void>(whom);
    static_cast<void>(up), static_cast<void>(when);
  }
  virtual void on_delivered(const member& from, const member& to,
                            const header& what, timestamp when) {
    static_cast<void>(from), static_cast<void>(to);
    static_cast<void>(what), static_cast<void>(when);
  }
  /// So many messages at one moment: time stands still.
  virtual void on_stuck(uint64_t messages, timestamp when) {
    static_cast<void>(messages), static_cast<void>(when);
  }
  virtual void on_log(log_level level, std::string_view line, timestamp when) {
    static_cast<void>(level), static_cast<void>(line), static_cast<void>(when);
  }
};

} // namespace millrace::simulator
