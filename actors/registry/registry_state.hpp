// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>

#include "actors/registry/registry.hpp"

namespace millrace {

/// A row of the registry as it is stored.
struct model_row {
  uint32_t schema = 1;
  model_settings settings;
  bool is_default = false; ///< from a config, not from an operator
  MILLRACE_FIELDS(model_row, schema, settings, is_default)
};

/// State of a REGISTRY; see registry.hpp.
struct registry_state {
  const char* name = "registry";

  void start(registry_actor::stateful_pointer<registry_state> self,
             std::shared_ptr<store> facts, cluster_state_actor cluster_state,
             placement_actor placement, registered defaults);

  caf::result<ack> on_set(const set_model& x);
  caf::result<ack> on_forget(const forget_model& x);
  caf::result<model_list> on_get();
  void on_rows(const registry_rows& x);
  void on_written(const registry_written& x);
  void on_tick();

private:
  struct entry {
    model_row row;
    uint64_t version = 0;
  };

  /// A change on its way to the disk; they are written one after the other.
  struct change {
    std::string model;
    std::optional<model_row> row; ///< nothing: forget it
    caf::typed_response_promise<ack> promise;
  };

  caf::result<ack> enqueue(std::string model, std::optional<model_row> row);
  void write_next();
  void publish_if_complete();

  /// What a model's settings are once all changes are on disk.
  std::optional<model_settings> latest(const std::string& model) const;

  registry_actor::stateful_pointer<registry_state> self_ = nullptr;
  std::shared_ptr<store> facts_;
  cluster_state_actor cluster_state_;
  placement_actor placement_;
  std::vector<model_settings> defaults_;
  std::map<std::string, scope_settings> scopes_;
  std::map<std::string, entry> models_;
  std::deque<change> changes_;    ///< the first is being written
  std::vector<change> unwritten_; ///< of the config: tried again
  bool loaded_ = false;
  bool published_ = false;
};

} // namespace millrace
