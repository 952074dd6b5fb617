// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "actors/policies/state/cluster_view.hpp"
#include "actors/profiler/profiler.hpp"
#include "models/partition/planner.hpp"
#include "runtime/store/durable_table.hpp"

namespace millrace {

/// A profile as stored. One row holds all live averages instead of a profile.
struct profile_row {
  uint32_t schema = 2;
  packed_profile what;
  std::vector<live_cost> live;
  MILLRACE_FIELDS(profile_row, schema, what, live)
};

/// State of a PROFILER; see profiler.hpp. Averages are in live_costs.cpp.
struct profiler_state {
  const char* name = "profiler";

  void start(profiler_actor::stateful_pointer<profiler_state> self,
             profiler_options options);

  caf::result<ack> on_measure(const measure_model& request);
  caf::result<ack> on_keep(const keep_profile& request);
  caf::result<ack> on_forget(const forget_profiles& request);
  profile_list on_get(const get_profiles& request) const;
  caf::result<plan_list> on_get_plans(const get_plans& request);
  void on_inventory(inventory& message);
  void on_peer_down(const peer_down& message);
  void on_rows(const rows_read& message);
  void on_written(const row_written& message);
  void on_planned(const planned& message);
  void on_tick();

private:
  using key = std::pair<std::string, std::string>; ///< model, layers
  /// Key of a live_cost: model, version, layers, kind of device.
  using cost_key = std::tuple<std::string, uint64_t, layer_range, std::string>;
  using ack_promise = caf::typed_response_promise<ack>;
  struct entry {
    profile what;
    uint64_t version = 0; ///< of the row
  };
  struct change {
    key of;                      ///< an empty model: the averages
    std::optional<profile> what; ///< nothing: remove all rows of the model
    ack_promise promise;
    std::vector<std::string> remarks{}; ///< for the caller
  };
  /// Plans for one profile on one kind of device.
  struct known_plans {
    std::shared_ptr<const partition_planner> planner;
    host_link link; ///< link that the plans assume
    uint64_t number = 0;
  };
  using plans_key = std::pair<key, std::string>;
  /// A pending request for plans.
  struct plan_request {
    plans_key of;
    uint64_t profile = 0; ///< version of its row
    caf::typed_response_promise<plan_list> promise;
  };

  /// A device that can be measured on.
  struct site {
    const node_state* node;
    const device_info* device;
    uint64_t version;
  };
  result<site> site_for(const measure_model& request) const;
  ack_promise end_measurement(const std::pair<std::string, std::string>& where,
                              uint64_t number);
  static key key_of(const profile& measured);
  result<void> take_row(const stored_row& stored);
  void keep(profile measured, ack_promise promise,
            std::vector<std::string> remarks = {});
  std::vector<std::string> remarks_here(const profile& measured) const;
  std::map<key, entry>::iterator first_of(const std::string& model);
  std::optional<row_write> row_of(change& wanted);
  void take_forgotten(const key& of);
  std::vector<const entry*> profiles_of(const std::string& model,
                                        const std::string& version) const;
  const model_info* info_of(const std::string& model,
                            const std::string& version) const;
  result<void> check_layers(const get_plans& request, size_t layers) const;
  host_link link_between_workers() const;
  // costs.cpp
  void renew_costs(const std::string& model);
  /// Sends CLUSTER STATE a new cost book when costs have changed, at most once
  /// a second; at once to a restarted CLUSTER STATE.
  void publish_costs();
  // live_costs.cpp
  void take_averages(const std::vector<live_cost>& xs);
  void keep_averages();
  live_cost& cost_of(const node_state& node, const replica_status& r);
  void learn_loads(const node_state& before, const node_state& now);
  void learn_usage(const std::string& node, const node_load& load);

  profiler_actor::stateful_pointer<profiler_state> self_ = nullptr;
  profiler_options options_;
  cluster_view view_;
  std::map<key, entry> profiles_;
  durable_table<change> table_; ///< started once all rows are read
  std::map<plans_key, known_plans> plans_;
  uint64_t planned_ = 0;                      ///< number of plans made
  std::map<uint64_t, plan_request> planning_; ///< pending, by number
  uint64_t last_request_ = 0;
  /// Running measurements by node and device: number and promise.
  std::map<std::pair<std::string, std::string>,
           std::pair<uint64_t, ack_promise>>
    measuring_;
  uint64_t last_measurement_ = 0;
  struct averages {
    live_cost cost;
    timestamp learned; ///< time of the newest value
  };
  std::map<cost_key, averages> live_;
  bool live_changed_ = false;       ///< since the last write
  timestamp live_due_;              ///< earliest time of the next write
  cost_book costs_;                 ///< as published last
  std::set<std::string> costs_due_; ///< models with changed costs
  timestamp costs_sent_;
  caf::actor_addr costs_sent_to_;
};

} // namespace millrace
