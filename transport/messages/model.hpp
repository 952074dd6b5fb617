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

/// Whether a request is run again that was lost with its replica, or failed
/// together with others in its batch.
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

/// How a model's requests queue up and are put together.
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
      note{
        "batches that a replica has beside those that run: the next, and of a"
        " part of a model what it has yet to hand on",
        0, 64},
      note{"how long the oldest request waits for others to share a batch; 0: a"
           " batch is what has queued up by the time a replica is free",
           0, 10},
      note{"of requests that bring none", 0.001, 86'400},
      note{"which replica takes the next batch: pull, the one with the most"
           " room; round_robin, one after the other that has room; in_turn, one"
           " after the other, even if the batch has to wait for room there"},
      note{"whether a request is run again whose replica was lost, or whose"
           " batch failed; never: for models that do more than compute"},
      note{"rows that a replica is loaded for: batch can be changed up to them"
           " without a reload, and a request of more is answered too_large; 0:"
           " batch, and a request of more rows runs alone",
           0, 1e6},
      note{"batches of a part of a model that have run and wait for the next"
           " part while the part runs others; 0: they block it, but for"
           " overlap",
           0, 4096}};
  }
};

/// Which replicas a larger number of copies is made of.
enum class growth : uint8_t {
  configured, ///< whole ones, or the parts that the settings of the model name
  automatic   ///< by the exact partition plan, each time anew
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
           " configured (the default), others follow the load; the section"
           " Scaling of OPERATING.md lists them"},
      note{"options of that policy, by name"},
      note{"replicas that there are at least; 0: none while no request comes",
           0, 10'000},
      note{"replicas that there are at most", 1, 10'000},
      note{"configured: new replicas are cut as parts and cuts of the model"
           " define; auto: each scale-up is cut as the exact partition plan"
           " finds best for the requests and devices at hand, and its parts"
           " become whole replicas in the background"}};
  }
};

/// How running replicas are replaced by others of another version, policy,
/// share, thread count or device. Each model by itself.
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
      note{"the pool whose machines the scope requests and releases; default:"
           " none (pools are in scenarios only)"}};
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

/// What is wanted of one variant, by the operator or a config.
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
      note{"its name in the bundles"},
      note{"a number or an alias; default: the alias default, else the newest"},
      note{"loaded copies", 0, 10'000},
      note{"a copy is cut into so many parts, each a replica of its own: a"
           " request passes through one of each, wherever they are; with cuts:"
           " one more than those",
           1, 128},
      note{"where: the first layer of each part but the first; default: so that"
           " the largest part is as small as it can be"},
      note{"loaded copies of each part, in their order, where they differ;"
           " default: replicas of each"},
      note{"where a part is ready, the other layers are loaded as well, in the"
           " background; once each device with a part has a whole copy these"
           " serve alone, and those beyond replicas make way for others"},
      note{"id or kind of the device they go to; default: any"},
      note{"part of the device each may use, where it is shared by parts (on a"
           " GPU partitions and mps; emulated ones take longer); where all want"
           " more than there is several have the same; 0: all of it",
           0, 1},
      note{"units of its device that each takes, where devices[].units limits"
           " them: cores, or percent of a GPU; 0: none",
           0, 1e9},
      note{"threads of one execution", 1, 256},
      note{"somebody vouches for its code: it may run in threads of nodes, and"
           " saves time, but nothing protects from it; see isolation"},
      note{"whose clients may ask for it; to others it does not exist; default:"
           " everybody's"},
      note{"how requests queue up and are put together"},
      note{"the latency that answers are meant to have: gateways count those"
           " within it, and policies aim at it; 0: the deadline",
           0, 86'400},
      note{"how the number of replicas is decided"},
      note{"batches that a replica runs at once, over all gateways; 0: as many"
           " as its device has lanes",
           0, 256}};
  }
};

/// Errors: bad_request for a batch of more rows than a replica is loaded for.
inline result<void> check_batch(const serving_policy& x) {
  if (x.batch_max == 0 || x.batch <= x.batch_max)
    return {};
  return error{ec::bad_request,
               "policy.batch_max: found " + std::to_string(x.batch_max)
                 + ", expected at least policy.batch, "
                 + std::to_string(x.batch) + ", or 0",
               {}};
}

/// Whether a policy of that name keeps the configured number of replicas; it is
/// the policy where none is named.
inline bool is_fixed_policy(std::string_view name) {
  return name.empty() || name == "fixed";
}

/// The scope that decides for a model.
inline std::string scope_of(const model_settings& x) {
  return x.scaling.scope.empty() ? "model/" + x.model : x.scaling.scope;
}

/// Scope and policy of a pinned model.
inline std::string pin_scope(const std::string& model) {
  return "pin/" + model;
}
constexpr auto pinning_policy = "given";

/// A bundle some node holds.
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
  /// Versions with the same have the same layers, but for their parameters'
  /// values: what one costs, the other does.
  std::string layers_key;
  /// What the bundle is known by, the SHA-256 of its manifest; empty: it cannot
  /// travel.
  std::string content;
  uint64_t chunk = chunk_bytes; ///< bytes of each chunk of its weights
  MILLRACE_FIELDS(model_info, model, version, application, accuracy, bytes,
                  layer_bytes, labels, aliases, signature, layers_key, content,
                  chunk)
};

/// How many chunks its weights have.
constexpr uint64_t chunks_of(const model_info& x) {
  return chunks_in(x.bytes, x.chunk);
}

} // namespace millrace
