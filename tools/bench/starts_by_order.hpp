// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/bench_cluster.hpp"
#include "bench/driver.hpp"
#include "client/client.hpp"
#include "client/operator_client.hpp"
#include "models/manifest.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

/// Loads and unloads the only model of a cluster by orders.
class starts_by_order {
public:
  starts_by_order(const manifest& model, client& gateway,
                  operator_client& shell)
    : model_(model.name),
      request_(request_of(model.name, model.signature)),
      gateway_(&gateway),
      shell_(&shell) {}

  /// Seconds since the decision to start the replicas. The decision follows the
  /// order at once, except at the start of a controller.
  struct seconds {
    double ready = 0;
    double first_answer = 0;
  };

  /// Orders `copies` replicas, and sends requests until about each replica has
  /// answered one. For a single replica a request waits from the order on.
  /// Errors: unavailable, with the reason from the controller.
  result<seconds> load(uint64_t copies = 1);
  result<void> unload();

  /// The latest start, as the controller recorded it.
  result<replica_start> latest();

private:
  result<model_status> status();
  result<void> order(uint64_t copies);
  result<void> wait_for(uint64_t copies);
  result<timestamp> answers(uint64_t open);

  std::string model_;
  infer request_;
  client* gateway_;
  operator_client* shell_;
};

/// A cluster on this host with one model, at first without replicas.
class cluster_by_order {
public:
  /// Errors: as bench_cluster's.
  static result<cluster_by_order> start(const bench_setup& setup,
                                        const manifest& model);

  bench_cluster& nodes() { return *nodes_; }
  operator_client& shell() { return *shell_; }
  starts_by_order& model() { return *model_; }

private:
  std::unique_ptr<bench_cluster> nodes_;
  std::unique_ptr<client> gateway_;
  std::unique_ptr<operator_client> shell_;
  std::optional<starts_by_order> model_;
};

} // namespace millrace
