// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/build_description.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// A number that only grows.
class counter {
public:
  void add(double n = 1);

private:
  friend class metrics;
  explicit counter(std::shared_ptr<void> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<void> impl_; ///< null: not recorded
};

/// A number that goes up and down.
class gauge {
public:
  void set(double x);
  void add(double x);

private:
  friend class metrics;
  explicit gauge(std::shared_ptr<void> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<void> impl_; ///< null: not recorded
};

/// One's share of a gauge that shows a sum; gone from it with its owner.
class gauge_share {
public:
  gauge_share(gauge of) : of_(std::move(of)) {}
  gauge_share(const gauge_share&) = delete;
  gauge_share& operator=(const gauge_share&) = delete;
  ~gauge_share() { set(0); }

  void set(double x) {
    if (x != mine_)
      of_.add(x - std::exchange(mine_, x));
  }

private:
  gauge of_;
  double mine_ = 0;
};

/// A distribution, by fixed buckets.
class histogram {
public:
  void observe(double x);

private:
  friend class metrics;
  explicit histogram(std::shared_ptr<void> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<void> impl_; ///< null: not recorded
};

/// The parts of a request's life that have a histogram each.
enum class phase : uint8_t {
  queue,
  execute,
  total,
  gathered,    ///< of queue: a replica was free meanwhile
  interference ///< of execute: what neighbours on devices cost
};

/// Where a host has models.
enum class cache_tier : uint8_t { memory, disk };

/// Where what a host needed was found.
enum class found_in : uint8_t { memory, disk, hosts, stores, nowhere };

/// Parts of a node with separate counts of processor time and memory.
enum class process_part : uint8_t {
  node,    ///< the node's own process
  confined ///< its children, which run models that are not trusted
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

/// Whether numbers are kept; where nobody can read them they cost nothing.
enum class recording : uint8_t { on, off };

/// A model version, as labels of a series.
struct model_label {
  std::string_view model;
  uint64_t version = 0; ///< 0: none is known, and no label
};

/// The label of requests for models that are neither served nor wanted: names
/// that a client makes up do not become series.
constexpr std::string_view unknown_model_label = "unknown";

/// Every metric family of a process, declared here and nowhere else, with the
/// text form that Prometheus scrapes. Handles are cheap to copy, safe from any
/// thread and may outlive this object; a call for a handle takes a lock, so
/// actors keep theirs.
///
/// A series with a model label is shown while an actor keeps a handle to the
/// series: the text has the models that are registered, served or placed, and
/// no others. The other series are shown from their first use on.
class metrics {
public:
  /// `node`: a label of every series; empty: none.
  explicit metrics(recording mode = recording::on, std::string node = {});
  ~metrics();

  counter requests(model_label of, std::string_view tenant,
                   std::string_view status);
  histogram request_seconds(model_label of, phase p);
  histogram batch_size(model_label of);
  gauge queue_length(model_label of);
  gauge replicas_ready(model_label of);
  counter redispatched(model_label of);
  gauge model_replicas_wanted(std::string_view model);
  gauge model_replicas_ready(std::string_view model);
  gauge model_replicas_starting(std::string_view model);
  counter replica_seconds(std::string_view model);
  counter demand_arrivals(std::string_view model);
  counter slo_answers(std::string_view model, bool within);
  counter scaling_decisions(std::string_view policy, bool up);
  histogram decision_seconds(std::string_view policy);
  counter late_answers(std::string_view reason);
  counter bus_messages(std::string_view direction);
  counter bus_bytes(std::string_view direction);
  counter bus_dropped(std::string_view reason);
  gauge peers();
  counter actor_restarts(std::string_view actor);
  gauge node_ready();
  gauge disk_refuses(std::string_view folder);
  counter device_busy_seconds(std::string_view device);
  gauge device_memory_bytes(std::string_view device);
  gauge device_memory_limit_bytes(std::string_view device);
  gauge gpu_busy_ratio(std::string_view device);
  gauge gpu_memory_bytes(std::string_view device);
  gauge gpu_memory_limit_bytes(std::string_view device);
  gauge gpu_watts(std::string_view device);
  histogram start_seconds(model_label of, found_in from);
  gauge cache_bytes(cache_tier tier);
  gauge cache_limit_bytes(cache_tier tier);
  counter cache_fetches(found_in from);
  counter cache_evictions(cache_tier tier);
  counter cache_quarantined();
  counter model_bytes(std::string_view direction);
  counter sources_lost();
  counter chain_passed_over();
  counter process_cpu_seconds(process_part of);
  gauge process_resident_memory_bytes(process_part of);
  gauge start_time_seconds();
  gauge build_info(const build_description& x);

  /// Whether numbers are kept.
  bool is_on() const;

  /// The exposition format, version 0.0.4.
  std::string text() const;

  /// Every family with its kind and meaning, as a table of Markdown.
  std::string reference() const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace millrace
