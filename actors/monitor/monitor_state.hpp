// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>

#include "actors/monitor/monitor.hpp"

namespace millrace {

/// State of a MONITOR; see monitor.hpp.
struct monitor_state {
  const char* name = "monitor";

  void start(monitor_actor::stateful_pointer<monitor_state> self,
             monitor_probes probes, std::shared_ptr<metrics> counts,
             microseconds period);

  void on_observe(observe& message);
  node_load on_get_load() const;
  void on_tick();
  void on_gpus_read(const gpus_read& message);

private:
  /// The last count of an executor or replica, and the usage before it.
  template <class Load, class Usage>
  struct watched {
    Load last;
    timestamp at;
    std::optional<Usage> usage;
  };

  void show_processes(const host_reading& host);
  void ask_gpus();
  timestamp now() const;
  template <class Table, class Load>
  void learn(Table& table, const std::string& thing, const Load& load);

  monitor_actor::stateful_pointer<monitor_state> self_ = nullptr;
  monitor_probes probes_;
  std::shared_ptr<metrics> counts_;
  observe things_;
  std::map<std::string, watched<device_load, device_usage>> devices_;
  std::map<std::string, watched<replica_load, replica_usage>> replicas_;
  std::vector<gpu_reading> gpus_;  ///< of the host, by number
  std::optional<timestamp> asked_; ///< time of the pending request
  host_reading host_;
  /// CPU seconds of the node's process and of its children, as last shown.
  double shown_seconds_ = 0, shown_children_seconds_ = 0;
  timestamp host_read_;
  microseconds period_{0};
  node_load host_usage_; ///< only the fields of the host
};

} // namespace millrace
