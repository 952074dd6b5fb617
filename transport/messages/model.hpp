// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/signature.hpp"
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

/// How a model's requests queue up and are put together.
struct serving_policy {
  uint64_t queue = 4096; ///< requests that may wait; more are overloaded
  drop_policy drop = drop_policy::late;
  uint64_t batch = 64; ///< rows in one batch, at most
  /// How long the oldest request may wait for others to share a batch; 0: a
  /// batch is what has queued up by the time a replica is free.
  microseconds batch_delay{0};
  /// Deadline of requests that bring none.
  microseconds deadline{30'000'000};
  MILLRACE_FIELDS(serving_policy, queue, drop, batch, batch_delay, deadline)
};

/// What is wanted of one variant, by the operator or a config.
struct model_settings {
  std::string model;
  std::string version; ///< number, alias or empty: "default"
  uint64_t replicas = 1;
  std::string device; ///< id or kind; empty: any
  double share = 0;   ///< of the device; 0: all
  uint64_t threads = 1;
  serving_policy policy;
  MILLRACE_FIELDS(model_settings, model, version, replicas, device, share,
                  threads, policy)
};

/// A bundle some node holds.
struct model_info {
  std::string model;
  uint64_t version = 0;
  std::string application;
  std::optional<double> accuracy;
  uint64_t bytes = 0;
  std::vector<std::string> labels;
  std::vector<std::string> aliases;
  struct signature signature;
  MILLRACE_FIELDS(model_info, model, version, application, accuracy, bytes,
                  labels, aliases, signature)
};

} // namespace millrace
