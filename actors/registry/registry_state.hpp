// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>

#include "actors/registry/registry.hpp"
#include "runtime/store/durable_table.hpp"

namespace millrace {

/// Groups that an operator chose in place of the policy's.
struct model_pin {
  std::string groups;    ///< empty: it is not pinned
  microseconds until{0}; ///< wall clock, since 1970; 0: until it is unpinned
  MILLRACE_FIELDS(model_pin, groups, until)
};

/// A row of the registry as it is stored.
struct model_row {
  uint32_t schema = 1;
  model_settings settings;
  bool is_default = false; ///< from a config, not from an operator
  model_pin pin;
  MILLRACE_FIELDS(model_row, schema, settings, is_default, pin)
};

/// The settings that an operator gave a scope.
struct scope_row {
  uint32_t schema = 1;
  scope_settings settings;
  MILLRACE_FIELDS(scope_row, schema, settings)
};

/// State of a REGISTRY; see registry.hpp.
struct registry_state {
  const char* name = "registry";

  void start(registry_actor::stateful_pointer<registry_state> self,
             std::shared_ptr<store> facts, cluster_state_actor cluster_state,
             placement_actor placement, registered defaults,
             std::function<microseconds()> wall_clock);

  caf::result<ack> on_set(const set_model& request);
  caf::result<ack> on_forget(const forget_model& request);
  caf::result<ack> on_pin(const pin_model& request);
  caf::result<ack> on_unpin(const unpin_model& request);
  caf::result<ack> on_set_scope(const set_scope& request);
  caf::result<model_list> on_get();
  void on_rows(const rows_read& message);
  void on_written(const row_written& message);
  void on_tick();

private:
  template <class Row>
  using rows = std::map<std::string, Row>;

  /// A change to be written.
  struct change {
    std::string key;              ///< a model, or with `of_scope` a scope
    std::optional<model_row> row; ///< nothing: forget it
    caf::typed_response_promise<ack> promise;
    bool of_scope = false;
    std::optional<scope_row> scope{}; ///< nothing: forget it
  };

  template <class Row>
  bool read(const stored_row& row, rows<Row>& to);
  void on_loaded();
  caf::result<ack> enqueue(change wanted);
  static std::optional<row_write> row_of(const change& wanted);
  void take_written(const change& wanted);
  void publish_if_complete();
  /// Settings of all scopes, with one change applied if given.
  std::map<std::string, scope_settings>
  scopes(const set_scope* change = nullptr) const;
  microseconds wall_time() const;
  /// Enqueues the removal of expired pins.
  void end_pins();
  void await_end_of_pins();

  /// A model's row once all changes are on disk.
  std::optional<model_row> latest(const std::string& model) const;

  registry_actor::stateful_pointer<registry_state> self_ = nullptr;
  std::shared_ptr<store> facts_;
  cluster_state_actor cluster_state_;
  placement_actor placement_;
  std::vector<model_settings> defaults_;
  std::function<microseconds()> wall_clock_; ///< may be empty
  std::map<std::string, scope_settings> default_scopes_;
  rows<model_row> models_;
  rows<scope_row> scopes_;
  durable_table<change> table_;   ///< started once all rows are read
  std::vector<change> unwritten_; ///< config changes to retry
  bool published_ = false;
  alarm pins_end_; ///< when the next pin ends
};

} // namespace millrace
