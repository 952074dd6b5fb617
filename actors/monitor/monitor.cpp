// SPDX-License-Identifier: Apache-2.0
#include "actors/monitor/monitor_state.hpp"

#include <algorithm>

#include "actors/monitor/usage.hpp"

namespace millrace {

namespace {

/// Longest timeout of a request for a load. An actor that does not answer keeps
/// its last usage.
constexpr microseconds longest_patience = 500ms;

} // namespace

void monitor_state::start(monitor_actor::stateful_pointer<monitor_state> self,
                          monitor_probes probes,
                          std::shared_ptr<metrics> counts,
                          microseconds period) {
  self_ = self;
  probes_ = std::move(probes);
  counts_ = std::move(counts);
  set_common_handlers(self);
  host_ = probes_.host();
  host_read_ = now();
  period_ = period;
  if (period_ > 0us)
    self->delayed_send(self, period_, tick::value);
}

timestamp monitor_state::now() const {
  return self_->clock().now();
}

void monitor_state::on_observe(observe& message) {
  things_ = std::move(message);
  auto keep = [](auto& table, auto& names) {
    std::erase_if(table,
                  [&](auto& entry) { return !names.contains(entry.first); });
  };
  keep(devices_, things_.executors);
  keep(replicas_, things_.replicas);
}

template <class Table, class Load>
void monitor_state::learn(Table& table, const std::string& thing,
                          const Load& load) {
  auto [i, fresh] = table.try_emplace(thing);
  auto& w = i->second;
  if (!fresh)
    w.usage = usage_between(w.last, load, now() - w.at);
  w.last = load;
  w.at = now();
}

void monitor_state::on_tick() {
  self_->delayed_send(self_, period_, tick::value);
  auto host = probes_.host();
  add_host_usage(host_usage_, host_, host, now() - host_read_);
  show_processes(host);
  host_ = host;
  host_read_ = now();
  ask_gpus();
  auto patience = std::min(longest_patience, period_ / 2);
  auto silent = [](const caf::error&) { /* its last usage stays */ };
  for (auto& [device, executor] : things_.executors)
    self_->request(executor, patience, get_load{})
      .then([this, device = device](
              const device_load& x) { learn(devices_, device, x); },
            silent);
  for (auto& [replica, handle] : things_.replicas)
    self_->request(handle, patience, get_load{})
      .then([this, replica = replica](
              const replica_load& x) { learn(replicas_, replica, x); },
            silent);
}

void monitor_state::show_processes(const host_reading& host) {
  auto show = [&](process_part of, double seconds, double& shown,
                  uint64_t resident) {
    // The count may decrease when a child ends.
    counts_->process_cpu_seconds(of).add(std::max(0.0, seconds - shown));
    shown = std::max(shown, seconds);
    counts_->process_resident_memory_bytes(of).set(
      static_cast<double>(resident));
  };
  show(process_part::node, host.process_seconds, shown_seconds_, host.resident);
  if (!probes_.children)
    return;
  auto children = probes_.children();
  show(process_part::confined, children.seconds, shown_children_seconds_,
       children.resident);
}

/// Requests readings of the GPUs. Readings are cleared when the driver does not
/// answer for two periods.
void monitor_state::ask_gpus() {
  if (probes_.gpu_of.empty() || !probes_.gpus)
    return;
  if (asked_ && now() - *asked_ > 2 * period_)
    gpus_.clear();
  if (asked_)
    return;
  asked_ = now();
  probes_.gpus([tell = teller<gpus_read>(self_)](auto x) {
    tell({std::make_shared<const gpu_readings>(std::move(x))});
  });
}

/// Stores the readings, and shows those of this node's devices in the metrics.
void monitor_state::on_gpus_read(const gpus_read& message) {
  asked_.reset();
  if (*message.content)
    gpus_ = **message.content;
  else
    gpus_.clear();
  for (auto& [device, number] : probes_.gpu_of)
    if (number < gpus_.size()) {
      auto& gpu = gpus_[number];
      counts_->gpu_busy_ratio(device).set(gpu.busy);
      counts_->gpu_memory_bytes(device).set(
        static_cast<double>(gpu.memory_used.value));
      counts_->gpu_memory_limit_bytes(device).set(
        static_cast<double>(gpu.memory.value));
      counts_->gpu_watts(device).set(gpu.watts);
    }
}

node_load monitor_state::on_get_load() const {
  auto out = host_usage_;
  for (auto& [device, x] : devices_)
    if (x.usage) {
      out.devices.push_back(*x.usage);
      auto gpu = probes_.gpu_of.find(device);
      if (gpu != probes_.gpu_of.end() && gpu->second < gpus_.size())
        add_gpu_usage(out.devices.back(), gpus_[gpu->second]);
    }
  for (auto& [replica, x] : replicas_)
    if (x.usage)
      out.replicas.push_back(*x.usage);
  return out;
}

monitor_actor::behavior_type
monitor(monitor_actor::stateful_pointer<monitor_state> self,
        monitor_probes probes, std::shared_ptr<metrics> counts,
        microseconds period) {
  auto& s = self->state;
  s.start(self, std::move(probes), std::move(counts), period);
  return {
    [&s](observe& x) { s.on_observe(x); },
    [&s](get_load) { return s.on_get_load(); },
    [&s](tick) { s.on_tick(); },
    [&s](const gpus_read& x) { s.on_gpus_read(x); },
  };
}

} // namespace millrace
