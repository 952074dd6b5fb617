// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/names.hpp"

namespace millrace {

/// A number that only grows.
class counter {
public:
  void add(double n = 1);

private:
  friend class metrics;
  explicit counter(void* impl) : impl_(impl) {}
  void* impl_;
};

/// A number that goes up and down.
class gauge {
public:
  void set(double x);
  void add(double x);

private:
  friend class metrics;
  explicit gauge(void* impl) : impl_(impl) {}
  void* impl_;
};

/// One's share of a gauge that shows a sum; gone from it with its owner.
class gauge_share {
public:
  explicit gauge_share(gauge of) : of_(of) {}
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
  explicit histogram(void* impl) : impl_(impl) {}
  void* impl_;
};

/// The parts of a request's life that have a histogram each.
enum class phase : uint8_t { queue, execute, total };

/// Where a host has models.
enum class cache_tier : uint8_t { memory, disk };

/// Where what a host needed was found.
enum class found_in : uint8_t { memory, disk, hosts, stores, nowhere };

constexpr auto names_of(phase) {
  return name_table{"queue", "execute", "total"};
}
constexpr auto names_of(cache_tier) {
  return name_table{"memory", "disk"};
}
constexpr auto names_of(found_in) {
  return name_table{"memory", "disk", "hosts", "stores", "nowhere"};
}

/// Whether numbers are kept; where nobody can read them they cost nothing.
enum class recording : uint8_t { on, off };

/// Every metric family of a process, declared here and nowhere else, with the
/// text form that Prometheus scrapes. Handles are cheap to copy, safe from any
/// thread and live as long as this object; asking for one takes a lock, so
/// actors keep theirs.
class metrics {
public:
  explicit metrics(recording mode = recording::on);
  ~metrics();

  counter requests(std::string_view model, std::string_view status);
  histogram request_seconds(std::string_view model, phase p);
  histogram batch_size(std::string_view model);
  gauge queue_length(std::string_view model);
  gauge replicas_ready(std::string_view model);
  counter redispatched(std::string_view model);
  gauge replicas(std::string_view model, std::string_view state);
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
  gauge gpu_busy_ratio(std::string_view device);
  gauge gpu_memory_bytes(std::string_view device);
  gauge gpu_watts(std::string_view device);
  histogram start_seconds(std::string_view model, found_in from);
  gauge cache_bytes(cache_tier tier);
  gauge cache_limit_bytes(cache_tier tier);
  counter cache_fetches(found_in from);
  counter cache_evictions(cache_tier tier);
  counter cache_quarantined();
  counter model_bytes(std::string_view direction);
  counter sources_lost();
  counter chain_passed_over();
  gauge process_cpu_seconds();
  gauge process_resident_memory_bytes();

  /// The exposition format, version 0.0.4.
  std::string text() const;

  /// Every family with its kind and meaning, as a table of Markdown.
  std::string reference() const;

private:
  template <class Handle>
  Handle handle(void* x) const;

  struct impl;
  std::unique_ptr<impl> impl_;
  recording mode_;
};

} // namespace millrace
