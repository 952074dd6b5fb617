// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/metric_family.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// The parts of a request's latency with a histogram each.
enum class phase : uint8_t {
  queue,
  execute,
  total,
  gathered,    ///< part of queue: time with a free replica
  interference ///< part of execute: time lost to other models on the device
};

/// Tiers of a host's model cache.
enum class cache_tier : uint8_t { memory, disk };

/// Where a host found content that it needed.
enum class found_in : uint8_t { memory, disk, hosts, stores, nowhere };

/// Parts of a node with separate metrics of CPU time and memory.
enum class process_part : uint8_t {
  node,    ///< the node's own process
  confined ///< the children, which run untrusted models
};

constexpr auto names_of(process_part) {
  return name_table{"node", "confined"};
}
constexpr auto names_of(phase) {
  return name_table{"queue", "execute", "total", "gathered", "interference"};
}
constexpr auto names_of(cache_tier) {
  return name_table{"memory", "disk"};
}
constexpr auto names_of(found_in) {
  return name_table{"memory", "disk", "hosts", "stores", "nowhere"};
}

/// Whether metrics are recorded. A node without an HTTP address records none,
/// which saves the cost.
enum class recording : uint8_t { on, off };

/// The model label of requests for unknown models: a name invented by a client
/// must not become a series.
constexpr std::string_view unknown_model_label = "unknown";

/// All metric families of a process, declared only here, and their text form
/// for Prometheus. Handles are cheap to copy, thread-safe, and may outlive this
/// object. Creating a handle takes a lock, so actors store their handles.
///
/// A series with a model label is shown while an actor holds a handle to the
/// series. The text therefore has only models that are registered, served or
/// placed. Other series are shown from the first use on.
class metrics {
  struct impl;
  std::unique_ptr<impl> impl_; // before the families: they register there
  using label = std::string_view;
  static constexpr auto by_handles = series_life::handles;

public:
  /// `node` becomes a label of each series; empty: no label.
  explicit metrics(recording mode = recording::on, std::string node = {});
  ~metrics();

  /// Whether metrics are recorded.
  bool is_on() const;

  /// Returns all series in the exposition format, version 0.0.4.
  std::string text() const;

  /// Returns a Markdown table of the families with kind and meaning.
  std::string reference() const;

  // -- the table: name, labels, meaning, life and buckets of each family ------
  // clang-format off
  metric_family<counter, model_label, label, label> requests{
    *this, "millrace_requests_total", {"tenant", "status"},
    "Answered requests, by model, version, tenant and status; model=unknown: "
    "a model that is neither served nor wanted.", by_handles};
  metric_family<histogram, model_label, phase> request_seconds{
    *this, "millrace_request_seconds", {"phase"},
    "Latency of answered requests, by model, version and phase: queue (of "
    "which gathered: time with a free replica), execute (of which "
    "interference: cost of other batches on the device), total.",
    by_handles, histogram_steps::requests};
  metric_family<histogram, model_label> batch_size{
    *this, "millrace_batch_size", {},
    "Requests per executed batch, by model and version.",
    by_handles, histogram_steps::sizes};
  metric_family<gauge, model_label> queue_length{
    *this, "millrace_queue_length", {},
    "Requests waiting for a replica, by model and version.", by_handles};
  metric_family<gauge, model_label> replicas_ready{
    *this, "millrace_replicas_ready", {},
    "Replicas this node's routers can use, by model and version.", by_handles};
  metric_family<counter, model_label> redispatched{
    *this, "millrace_redispatched_total", {},
    "Requests sent again because their replica was lost, by model and "
    "version.", by_handles};
  metric_family<gauge, label> model_replicas_wanted{
    *this, "millrace_model_replicas_wanted", {"model"},
    "Wanted whole copies of a model, by model; from the controller.",
    by_handles};
  metric_family<gauge, label> model_replicas_ready{
    *this, "millrace_model_replicas_ready", {"model"},
    "Ready whole copies of a model, by model; a copy in parts counts when all "
    "its parts are ready; from the controller.", by_handles};
  metric_family<gauge, label> model_replicas_starting{
    *this, "millrace_model_replicas_starting", {"model"},
    "Starting whole copies of a model, by model; from the controller.",
    by_handles};
  metric_family<counter, label> replica_seconds{
    *this, "millrace_replica_seconds_total", {"model"},
    "Seconds of ready replicas, summed over replicas, by model.", by_handles};
  metric_family<counter, label> demand_arrivals{
    *this, "millrace_demand_arrivals_total", {"model"},
    "Requests that this node's gateway admitted or refused for lack of room, "
    "by model.", by_handles};
  metric_family<counter, label, label> slo_answers{
    *this, "millrace_slo_total", {"model", "within"},
    "Answers, by model and by within: true if ok within the SLO of the model, "
    "else false.", by_handles};
  metric_family<counter, label, label> scaling_decisions{
    *this, "millrace_scaling_decisions_total", {"policy", "direction"},
    "Changes of the number of replicas of a model, by policy and direction: "
    "up, down."};
  metric_family<histogram, label> decision_seconds{
    *this, "millrace_decision_seconds", {"policy"},
    "Time that a scaling policy took for one proposal, by policy.",
    series_life::process, histogram_steps::decisions};
  metric_family<counter, label> late_answers{
    *this, "millrace_unused_answers_total", {"reason"},
    "Results of requests that were already answered, by reason."};
  metric_family<counter, label> bus_messages{
    *this, "millrace_bus_messages_total", {"direction"},
    "Messages on the bus, by direction."};
  metric_family<counter, label> bus_bytes{
    *this, "millrace_bus_bytes_total", {"direction"},
    "Bytes of messages on the bus, by direction."};
  metric_family<counter, label> bus_dropped{
    *this, "millrace_bus_dropped_total", {"reason"},
    "Messages that were undeliverable, malformed or forbidden, by reason."};
  metric_family<gauge> peers{
    *this, "millrace_peers", {},
    "Other nodes with a link in both directions."};
  metric_family<counter, label> actor_restarts{
    *this, "millrace_actor_restarts_total", {"actor"},
    "Restarts of crashed actors, by actor."};
  metric_family<gauge> node_ready{
    *this, "millrace_node_ready", {},
    "1 while this node accepts work, else 0."};
  metric_family<gauge, label> disk_refuses{
    *this, "millrace_disk_refuses", {"folder"},
    "1 while a data folder rejects writes, else 0."};
  metric_family<counter, label> device_busy_seconds{
    *this, "millrace_device_busy_seconds_total", {"device"},
    "Execution time of a device, by device."};
  metric_family<gauge, label> device_memory_bytes{
    *this, "millrace_device_memory_bytes", {"device"},
    "Memory held by loaded replicas, by device."};
  metric_family<gauge, label> device_memory_limit_bytes{
    *this, "millrace_device_memory_limit_bytes", {"device"},
    "Memory that loaded replicas may hold, by device; 0: no limit."};
  metric_family<gauge, label> gpu_busy_ratio{
    *this, "millrace_gpu_busy_ratio", {"device"},
    "Fraction of the last second in which a GPU ran kernels of any process, "
    "by device."};
  metric_family<gauge, label> gpu_memory_bytes{
    *this, "millrace_gpu_memory_bytes", {"device"},
    "Memory of a GPU in use, by device."};
  metric_family<gauge, label> gpu_memory_limit_bytes{
    *this, "millrace_gpu_memory_limit_bytes", {"device"},
    "Memory size of a GPU, by device."};
  metric_family<gauge, label> gpu_watts{
    *this, "millrace_gpu_watts", {"device"},
    "Power of a GPU, by device."};
  metric_family<histogram, model_label, found_in> start_seconds{
    *this, "millrace_start_seconds", {"from"},
    "Time from the order to start a replica until it can run, by model, "
    "version and source of the bytes: memory, disk, hosts, stores.",
    by_handles, histogram_steps::starts};
  metric_family<gauge, cache_tier> cache_bytes{
    *this, "millrace_cache_bytes", {"tier"},
    "Bytes of models that this node stores or has reserved, by tier. Each "
    "node of a host counts shared content."};
  metric_family<gauge, cache_tier> cache_limit_bytes{
    *this, "millrace_cache_limit_bytes", {"tier"},
    "Limit of the bytes of models, by tier; 0: no limit."};
  metric_family<counter, found_in> cache_fetches{
    *this, "millrace_cache_fetches_total", {"from"},
    "Models that replicas of this host requested, by source: memory, disk, "
    "hosts (with other nodes of this host), stores, nowhere."};
  metric_family<counter, cache_tier> cache_evictions{
    *this, "millrace_cache_evictions_total", {"tier"},
    "Evicted models, by tier."};
  metric_family<counter> cache_quarantined{
    *this, "millrace_cache_quarantined_total", {},
    "Broken bundles found on the disk."};
  metric_family<counter, label> model_bytes{
    *this, "millrace_model_bytes_total", {"direction"},
    "Bytes of models sent to hosts and received from hosts and stores, by "
    "direction."};
  metric_family<counter> sources_lost{
    *this, "millrace_sources_lost_total", {},
    "Sources (hosts, stores) that failed, refused or sent wrong bytes during "
    "a transfer."};
  metric_family<counter> chain_passed_over{
    *this, "millrace_chain_passed_over_total", {},
    "Hosts that were moved to the end of a chain because they received too "
    "slowly."};
  metric_family<counter, process_part> process_cpu_seconds{
    *this, "millrace_process_cpu_seconds_total", {"part"},
    "CPU time, by part: node (its own process), confined (its processes of "
    "untrusted models)."};
  metric_family<gauge, process_part> process_resident_memory_bytes{
    *this, "millrace_process_resident_memory_bytes", {"part"},
    "Physical memory, by part: node (its own process), confined (its "
    "processes of untrusted models); shared pages count in each process."};
  metric_family<gauge> start_time_seconds{
    *this, "millrace_start_time_seconds", {},
    "Start time of this node, in seconds since 1970."};
  metric_family<gauge, label, label, label, label> build_info{
    *this, "millrace_build_info", {"version", "commit", "libtorch", "cuda"},
    "1, with labels of the build: version, commit, libtorch, cuda."};
  // clang-format on

private:
  friend class metric_family_base;
};

} // namespace millrace
