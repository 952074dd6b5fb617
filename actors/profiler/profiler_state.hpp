// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "actors/policies/state/cluster_view.hpp"
#include "actors/profiler/profiler.hpp"
#include "models/partition/planner.hpp"

namespace millrace {

/// A profile as it is stored; one row has all averages in its place.
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

  caf::result<ack> on_measure(const measure_model& x);
  caf::result<ack> on_keep(const keep_profile& x);
  caf::result<ack> on_forget(const forget_profiles& x);
  profile_list on_get(const get_profiles& x) const;
  caf::result<plan_list> on_get_plans(const get_plans& x);
  void on_inventory(inventory& x);
  void on_peer_down(const peer_down& x);
  void on_rows(const stored_profiles& x);
  void on_written(const profile_written& x);
  void on_planned(const planned& x);
  void on_tick();

private:
  using key = std::pair<std::string, std::string>; ///< model, layers
  /// What a live_cost is of: model, version, layers, kind of device.
  using cost_key = std::tuple<std::string, uint64_t, layer_range, std::string>;
  using ack_promise = caf::typed_response_promise<ack>;
  struct entry {
    profile what;
    uint64_t version = 0; ///< of the row
  };
  struct change {
    key of;                      ///< of no model: the averages
    std::optional<profile> what; ///< none: all rows of this model go
    ack_promise promise;
    std::vector<std::string> remarks{}; ///< for who asked
  };
  /// Of one profile on one kind of device.
  struct known_plans {
    std::shared_ptr<const partition_planner> planner;
    host_link link; ///< that it counts with
    uint64_t number = 0;
  };
  using plans_key = std::pair<key, std::string>;
  /// Who waits for plans.
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
  result<site> site_for(const measure_model& x) const;
  ack_promise end_measurement(const std::pair<std::string, std::string>& where,
                              uint64_t number);
  static key key_of(const profile& x);
  result<void> take_row(const stored_row& x);
  void keep(profile x, ack_promise promise,
            std::vector<std::string> remarks = {});
  std::vector<std::string> remarks_here(const profile& x) const;
  uint64_t version_of(const key& x) const;
  void enqueue(change x);
  std::map<key, entry>::iterator first_of(const std::string& model);
  void write_next();
  std::vector<const entry*> profiles_of(const std::string& model,
                                        const std::string& version) const;
  const model_info* info_of(const std::string& model,
                            const std::string& version) const;
  result<void> check_layers(const get_plans& x, size_t layers) const;
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
  void learn_usage(const std::string& node, const node_load& x);

  profiler_actor::stateful_pointer<profiler_state> self_ = nullptr;
  profiler_options options_;
  cluster_view view_;
  bool loaded_ = false;
  std::map<key, entry> profiles_;
  std::map<key, uint64_t> unread_; ///< rows that cannot be read: versions
  std::deque<change> changes_;     ///< the first is being written
  std::map<plans_key, known_plans> plans_;
  uint64_t planned_ = 0;                      ///< times
  std::map<uint64_t, plan_request> planning_; ///< aside, by number
  uint64_t last_request_ = 0;
  /// Devices that are measured on (node and device): since which question, and
  /// who waits for the answer.
  std::map<std::pair<std::string, std::string>,
           std::pair<uint64_t, ack_promise>>
    measuring_;
  uint64_t last_measurement_ = 0;
  struct averages {
    live_cost cost;
    timestamp learned; ///< the newest figure
  };
  std::map<cost_key, averages> live_;
  uint64_t live_version_ = 0; ///< of the row that has them
  bool live_changed_ = false; ///< since that was written
  timestamp live_due_;        ///< when it is written, if they have changed
  cost_book costs_;           ///< as it was published last
  std::set<std::string> costs_due_; ///< models with changed costs
  timestamp costs_sent_;
  caf::actor_addr costs_sent_to_;
};

} // namespace millrace
