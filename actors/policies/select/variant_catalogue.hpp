// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The choice of variant and worker for a request of an application (INFaaS,
/// section 4.1, Case I), by an index and by a scan.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/names.hpp"

namespace millrace {

/// How a variant and a worker are chosen.
enum class selection_rule : uint8_t {
  infaas, ///< by an index; the least loaded worker
  brute,  ///< the same choice by a scan over variants and workers
  fit     ///< by an index; the most loaded worker with active replicas
};

constexpr auto names_of(selection_rule) {
  return name_table{"infaas", "brute", "fit"};
}

/// Static facts of a variant.
struct catalogue_variant {
  std::string application;
  double accuracy = 0;
  double latency = 0; ///< seconds, by the profile
  double load = 0;    ///< seconds until a replica is ready
  double cost = 0;    ///< per second, of a replica
  size_t kind = 0;    ///< of device
};

/// Requirements of a request.
struct variant_query {
  std::string application;
  double accuracy = 0; ///< at least
  double latency = 0;  ///< at most, by the profile; 0: any
  /// Whether a variant without replicas comes before a variant with only
  /// overloaded or interfered replicas.
  bool loads_first = true;
  /// Whether a variant may answer the request; null: all variants may.
  std::function<bool(size_t variant)> allowed{};
};

/// The result of a query.
struct variant_choice {
  size_t variant = 0;
  size_t worker = 0;
  bool loads = false; ///< no replica is active: the worker loads the variant
  friend bool operator==(const variant_choice&,
                         const variant_choice&) = default;
};

/// Variants, workers and their replicas. Choices, in this order:
///
/// 1. An active variant of least cost, on its least loaded worker.
/// 2. A variant without replicas, of least loading time plus latency, with room
///    on a device of its kind; the worker with the lowest utilisation of the
///    kind.
/// 3. A variant with only overloaded or interfered replicas, of least cost, on
///    its least loaded worker.
///
/// Without `loads_first`, choice 3 comes before 2. The paper leaves the choice
/// among active variants open, and does not mention choice 3. Among equals the
/// lower number is chosen. A change takes logarithmic time. A choice visits
/// variants of the application in the order of preference until a variant meets
/// the demand.
class variant_catalogue {
public:
  size_t add(catalogue_variant added);
  size_t size() const { return variants_.size(); }

  /// Sets the utilisation of a kind of device on a worker, from 0 to 1; at 1
  /// the worker has no room for a variant.
  void set_utilisation(size_t worker, size_t kind, double utilisation);

  /// Sets the state of a replica on a worker. `degraded`: overloaded or
  /// interfered. `load`: part of its saturation throughput.
  void set_replica(size_t variant, size_t worker, double load, bool degraded);
  void remove_replica(size_t variant, size_t worker);

  /// Nothing: no variant of the application meets the demand, or no worker has
  /// room.
  std::optional<variant_choice> choose(const variant_query& query,
                                       selection_rule by) const;

private:
  using order = std::tuple<double, double, size_t>; ///< ..., variant
  struct replica {
    double load = 0;
    bool degraded = false;
  };
  struct entry {
    catalogue_variant facts;
    std::map<size_t, replica> replicas;                   ///< by worker
    std::set<std::pair<double, size_t>> active, degraded; ///< load, worker
  };
  struct application {
    std::set<order> active, degraded; ///< by cost, latency
    std::set<order> inactive;         ///< by loading time plus latency, cost
  };

  std::set<order>& set_of(application& in, const entry& variant) const;
  order key_of(size_t variant) const;
  template <class F>
  void change(size_t variant, F f);
  std::optional<size_t> roomy_worker(size_t kind) const;
  std::optional<variant_choice>
  active_one(const application& in, const variant_query& query, bool fit) const;
  std::optional<variant_choice> inactive_one(const application& in,
                                             const variant_query& query) const;
  std::optional<variant_choice> degraded_one(const application& in,
                                             const variant_query& query) const;
  std::optional<variant_choice> by_index(const variant_query& query,
                                         bool fit) const;
  std::optional<variant_choice> by_scan(const variant_query& query) const;

  std::vector<entry> variants_;
  std::map<std::string, application, std::less<>> applications_;
  /// By kind: workers by utilisation, and the utilisation of each.
  std::map<size_t, std::set<std::pair<double, size_t>>> workers_;
  std::map<size_t, std::map<size_t, double>> utilisation_;
};

} // namespace millrace
