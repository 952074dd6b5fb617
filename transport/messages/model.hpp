// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/chunks.hpp"
#include "models/signature.hpp"
#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// What happens to a request that can no longer meet its deadline.
enum class drop_policy : uint8_t {
  late, ///< answered deadline_exceeded before it is executed
  never ///< executed all the same (two of the papers never drop)
};

constexpr auto names_of(drop_policy) {
  return name_table{"late", "never"};
}

/// Which replica takes the next batch; see
/// actors/policies/dispatch/dispatcher.hpp.
enum class dispatch_policy : uint8_t { pull, round_robin, in_turn };

constexpr auto names_of(dispatch_policy) {
  return name_table{"pull", "round_robin", "in_turn"};
}

/// Whether a request runs again after the loss of its replica, or after a
/// failure of a batch with several requests.
enum class retry_policy : uint8_t {
  once, ///< a second time, unless the request is not idempotent
  never ///< answered unavailable, or with the failure
};

constexpr auto names_of(retry_policy) {
  return name_table{"once", "never"};
}

/// Layers [first, last) of a model, counted from 0.
struct layer_range {
  uint64_t first = 0;
  uint64_t last = 0;
  MILLRACE_FIELDS(layer_range, first, last)
  friend auto operator<=>(const layer_range&, const layer_range&) = default;
};

/// How a model's requests wait and form batches.
struct serving_policy {
  uint64_t queue = 4096;
  drop_policy drop = drop_policy::late;
  uint64_t batch = 64;
  uint64_t overlap = 1;
  microseconds batch_delay{0};
  microseconds deadline{30'000'000};
  dispatch_policy dispatch = dispatch_policy::pull;
  retry_policy retry = retry_policy::once;
  uint64_t batch_max = 0;
  uint64_t held = 0;
  MILLRACE_FIELDS(serving_policy, queue, drop, batch, overlap, batch_delay,
                  deadline, dispatch, retry, batch_max, held)
  static constexpr auto notes() {
    return std::array{
      note{"requests that may wait; more are answered overloaded", 1, 1e6},
      note{"requests that can no longer meet their deadline: late answers"
           " deadline_exceeded at once, never executes them all the same"},
      note{"rows in one batch, at most", 1, 4096},
      note{"batches that a replica has in addition to running ones: the next"
           " ones and, for a part of a model, those that wait for the next"
           " part",
           0, 64},
      note{"how long the oldest request waits for others to share a batch;"
           " 0: a batch takes the requests that wait when a replica is free",
           0, 10},
      note{"for requests without a deadline", 0.001, 86'400},
      note{"which replica takes the next batch: pull, the one with the most"
           " room; round_robin, one after the other that has room; in_turn, one"
           " after the other, even if the batch has to wait for room there"},
      note{"whether a request runs again after the loss of its replica or a"
           " failure of its batch; never: for models with side effects"},
      note{"rows that a replica is loaded for: batch can be changed up to them"
           " without a reload, and a request of more is answered too_large; 0:"
           " batch, and a request of more rows runs alone",
           0, 1e6},
      note{"batches of a part of a model that have run and may wait for the"
           " next part while the part runs others; 0: such batches block the"
           " part, but for overlap",
           0, 4096}};
  }
};

/// How additional copies are divided into replicas.
enum class growth : uint8_t {
  configured, ///< whole, or in the parts that the model's settings define
  automatic   ///< by the exact partition plan, computed at each scale-up
};

constexpr auto names_of(growth) {
  return name_table{"configured", "auto"};
}

/// How the number of a model's replicas is decided.
struct scaling_settings {
  std::string scope;
  std::string policy;
  std::map<std::string, std::string> options;
  uint64_t min = 1;
  uint64_t max = 10;
  growth parts = growth::configured;
  MILLRACE_FIELDS(scaling_settings, scope, policy, options, min, max, parts)
  static constexpr auto notes() {
    return std::array{
      note{"the scope that decides for the model together with others:"
           " application/NAME, pool/NAME, cluster, or model/NAME, which is the"
           " default"},
      note{"the policy of scope model/NAME: fixed keeps replicas as they are"
           " configured (the default), others follow the load;"
           " SCALING.md lists them"},
      note{"options of the policy, by name"},
      note{"minimum number of replicas; 0: none while there are no requests", 0,
           10'000},
      note{"maximum number of replicas", 1, 10'000},
      note{"configured: new replicas are cut as parts and cuts of the model"
           " define; auto: each scale-up is cut as the exact partition plan"
           " finds best for the requests and devices at hand, and its parts"
           " become whole replicas in the background"}};
  }
};

/// How running replicas are replaced after a change of version, policy, share,
/// thread count or device. Applies to each model separately.
struct rollout_settings {
  uint64_t surge = 1;
  uint64_t unavailable = 0;
  MILLRACE_FIELDS(rollout_settings, surge, unavailable)
  static constexpr auto notes() {
    return std::array{
      note{"replicas beyond the wanted number while others replace them", 1,
           10'000},
      note{"ready replicas below the wanted number, at most, where the new ones"
           " have no room beside the old ones; 0: these stay then, and the new"
           " ones wait",
           0, 10'000}};
  }
};

/// How the models of a scope are scaled together.
struct scope_settings {
  std::string policy;
  std::map<std::string, std::string> options;
  microseconds every{1'000'000};
  rollout_settings rollout;
  std::string pool;
  MILLRACE_FIELDS(scope_settings, policy, options, every, rollout, pool)
  static constexpr auto notes() {
    return std::array{
      note{"the policy, as in models[].scaling; default: fixed"},
      note{"options of the policy, by name"},
      note{"how often the policy looks at the load", 0.01, 3600},
      note{"how replicas are replaced"},
      note{"the pool of machines that the scope requests and releases;"
           " default: none (pools are in scenarios only)"}};
  }
};

/// The policy that maps replicas to devices, for the whole cluster.
struct placement_settings {
  std::string policy;
  std::map<std::string, std::string> options;
  MILLRACE_FIELDS(placement_settings, policy, options)
  static constexpr auto notes() {
    return std::array{
      note{"least_loaded, the default: the device with the fewest replicas;"
           " pack: the fullest device with room; two_stage: devices of hosts"
           " that have the model, then one device of each other host"},
      note{"options of the policy, by name"}};
  }
};

/// The policy by which gateways choose the variant for a request that names an
/// application.
enum class selection_policy : uint8_t {
  quickest, ///< the ready variant with the least measured latency
  infaas,   ///< the cheapest active variant, by an index (INFaaS, section 4.1)
  brute     ///< the same choice by a scan over all variants
};

constexpr auto names_of(selection_policy) {
  return name_table{"quickest", "infaas", "brute"};
}

struct selection_settings {
  selection_policy policy = selection_policy::quickest;
  MILLRACE_FIELDS(selection_settings, policy)
  static constexpr auto notes() {
    return std::array{
      note{"which variant answers a request that names an application:"
           " quickest, the ready one with the least measured latency; infaas,"
           " the cheapest active one, or the one that is loaded soonest when"
           " none is active; brute, the same choice without an index"}};
  }
};

/// The wanted state of one variant, from an operator or a config.
struct model_settings {
  std::string model;
  std::string version;
  uint64_t replicas = 1;
  uint64_t parts = 1;
  std::vector<uint64_t> cuts;
  std::vector<uint64_t> replicas_of_parts;
  bool complete = false;
  std::string device;
  double share = 0;
  uint64_t units = 0;
  uint64_t threads = 1;
  bool trusted = false;
  std::vector<std::string> tenants;
  serving_policy policy;
  microseconds slo{0};
  scaling_settings scaling;
  uint64_t concurrency = 0;
  MILLRACE_FIELDS(model_settings, model, version, replicas, parts, cuts,
                  replicas_of_parts, complete, device, share, units, threads,
                  trusted, tenants, policy, slo, scaling, concurrency)
  static constexpr auto notes() {
    return std::array{
      note{"name of the model in its bundles"},
      note{"a number or an alias; default: the alias default, else the newest"},
      note{"loaded copies", 0, 10'000},
      note{"number of parts of a copy, each a replica of its own: a request"
           " passes through one replica of each part, on any node; with cuts:"
           " one more than the number of cuts",
           1, 128},
      note{"the first layer of each part but the first; default: the cuts"
           " with the smallest largest part"},
      note{"loaded copies of each part, in their order, where they differ;"
           " default: replicas of each"},
      note{"on each device with a ready part the other layers are loaded in"
           " the background; once each of these devices has a whole copy,"
           " only whole copies serve, and copies beyond replicas are removed"},
      note{"id or kind of the device; default: any"},
      note{"fraction of the device for each replica, if the device is shared"
           " by fractions (a GPU with partitions or mps; an emulated device"
           " runs slower); if the shares exceed the device, several replicas"
           " use the same fraction; 0: the whole device",
           0, 1},
      note{"units of the device for each replica, if devices[].units limits"
           " them: cores, or percent of a GPU; 0: none",
           0, 1e9},
      note{"threads of one execution", 1, 256},
      note{"trusted code: runs in threads of the node instead of a sandboxed"
           " process, which saves time but does not protect the node; see"
           " isolation"},
      note{"tenants with access to the model; for others it does not exist;"
           " default: all tenants"},
      note{"how requests wait and form batches"},
      note{"target latency of answers: gateways count the answers within it,"
           " and policies use it as their target; 0: the deadline",
           0, 86'400},
      note{"how the number of replicas is decided"},
      note{"batches that a replica runs at once, over all gateways; 0: as many"
           " as its device has lanes",
           0, 256}};
  }
};

/// Errors: bad_request for a batch of more rows than a replica is loaded for.
inline result<void> check_batch(const serving_policy& policy) {
  if (policy.batch_max == 0 || policy.batch <= policy.batch_max)
    return {};
  return error{ec::bad_request,
               "policy.batch_max: found " + std::to_string(policy.batch_max)
                 + ", expected at least policy.batch, "
                 + std::to_string(policy.batch) + ", or 0",
               {}};
}

/// Whether the policy keeps the configured number of replicas. An empty name
/// means the default, which does.
inline bool is_fixed_policy(std::string_view name) {
  return name.empty() || name == "fixed";
}

/// The scope that decides for a model.
inline std::string scope_of(const model_settings& settings) {
  return settings.scaling.scope.empty() ? "model/" + settings.model
                                        : settings.scaling.scope;
}

/// Scope and policy of a pinned model.
inline std::string pin_scope(const std::string& model) {
  return "pin/" + model;
}
constexpr auto pinning_policy = "given";

/// A bundle that some node has.
struct model_info {
  std::string model;
  uint64_t version = 0;
  std::string application;
  std::optional<double> accuracy;
  uint64_t bytes = 0;
  std::vector<uint64_t> layer_bytes; ///< of each layer's parameters
  std::vector<std::string> labels;
  std::vector<std::string> aliases;
  struct signature signature;
  /// Versions with the same key have the same layers with other parameter
  /// values, and so the same costs.
  std::string layers_key;
  /// SHA-256 of the bundle's manifest; empty: the bundle cannot be transferred.
  std::string content;
  uint64_t chunk = chunk_bytes; ///< bytes of each chunk of its weights
  MILLRACE_FIELDS(model_info, model, version, application, accuracy, bytes,
                  layer_bytes, labels, aliases, signature, layers_key, content,
                  chunk)
};

/// A bundle in the disk cache of a host.
struct disk_bundle {
  model_info info;
  microseconds idle{0}; ///< time since the last use
  MILLRACE_FIELDS(disk_bundle, info, idle)
};

/// Number of chunks of its weights.
constexpr uint64_t chunks_of(const model_info& model) {
  return chunks_in(model.bytes, model.chunk);
}

} // namespace millrace
