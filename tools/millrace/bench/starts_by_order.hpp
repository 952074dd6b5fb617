// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "client/client.hpp"
#include "client/operator_client.hpp"
#include "millrace/bench/bench_cluster.hpp"
#include "millrace/bench/driver.hpp"
#include "models/manifest.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

/// The only model of a cluster, which is loaded when that is ordered, and
/// unloaded.
class starts_by_order {
public:
  starts_by_order(const manifest& model, client& gateway,
                  operator_client& shell)
    : model_(model.name),
      request_(request_of(model.name, model.signature)),
      gateway_(&gateway),
      shell_(&shell) {}

  /// Since the decision that the copies are to be there. That follows the order
  /// at once, but where a controller has just begun.
  struct seconds {
    double ready = 0;
    double first_answer = 0;
  };

  /// Orders so many copies, and has each answer something, or nearly so. A
  /// request waits for one copy from the order on.
  /// Errors: unavailable, with why they are not there.
  result<seconds> load(uint64_t copies = 1);
  result<void> unload();

  /// How the latest start went, as the controller knows it.
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

/// A cluster on this host with one model, which it does not serve yet.
class cluster_by_order {
public:
  /// Errors: as bench_cluster's.
  static result<cluster_by_order> start(const bench_setup& x,
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
