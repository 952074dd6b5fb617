// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "actors/gateway/demand_counts.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/gateway/notable_requests.hpp"
#include "actors/policies/select/variant_catalogue.hpp"
#include "actors/policies/select/variants.hpp"
#include "runtime/deadline_queue.hpp"
#include "runtime/string_map.hpp"

namespace millrace {

/// State of a GATEWAY; see gateway.hpp.
struct gateway_state {
  const char* name = "gateway";

  /// Answers all open requests, even when the gateway crashes.
  ~gateway_state();

  void start(gateway_actor::stateful_pointer<gateway_state> self,
             gateway_options options, bus* net,
             std::shared_ptr<metrics> counts);

  void on_requests(request_group& message);
  void on_cancel(const client_cancel& message);
  void on_left(const client_left& message);
  void on_describe(const client_describe& request);
  void on_ready(replica_ready& message);
  void on_tuned(const replica_tuned& message);
  void on_draining(const replica_draining& message);
  void on_completed(requests_completed& message);
  void on_returned(requests_returned& message);
  void on_model_availability(const model_availability& message);
  void on_wanted(wanted_models& message);
  caf::result<request_list> on_get_requests(const get_requests& request);
  void on_track(request_track& track);
  void on_backlog(const backlog& message);
  void on_peer_up(const peer_up& message);
  void on_peer_down(const peer_down& message);
  void add_late(outcome& answer);
  void on_finish();
  void on_tick();

private:
  /// A model version that a replica serves or served (served_models.cpp).
  struct served {
    model_info info;
    std::vector<std::string> tenants; ///< tenants with access; empty: all
    serving_policy policy;
    router_actor router;
    std::set<caf::actor_id> replicas; ///< ready replicas, whole or parts
    std::set<caf::actor_id> draining; ///< draining replicas, not ended yet
    bool through = false;             ///< as in model_availability
    bool ended = false;               ///< no longer served
    microseconds latency{0};          ///< moving average of execution times
    timestamp latency_learned;
    /// Answers by endpoint and status; like the histograms below shown until
    /// the version has ended and its last request is answered.
    std::map<std::pair<uint32_t, ec>, counter> by_status;
    size_t open = 0;                ///< requests in flight
    demand_count* demand = nullptr; ///< of the model, over all versions
    /// Requests wait while no replica is ready, unless there is an obstacle.
    bool waits = false;
    std::string obstacle{}; ///< why no replica can be started; empty: none
    microseconds slo{0};    ///< as in model_settings
    /// State of the variant in the scaling policy of its application; none: the
    /// policy does not compare variants.
    std::optional<variant_standing> standing{};
    route next; ///< admitted requests for the next message to the router
    std::optional<histogram> queue_time, execute_time, total_time,
      gathered_time, interference_time;

    model_label label() const { return {info.model, info.version}; }
  };

  /// Open requests of one connection.
  struct client {
    std::unordered_map<uint64_t, uint64_t> requests; ///< client's id -> key
    size_t bytes = 0;                                ///< of their inputs
  };
  struct session_hash {
    size_t operator()(const session& client) const {
      return std::hash<std::string>{}(client.connection) + client.endpoint;
    }
  };
  using client_map = std::unordered_map<session, client, session_hash>;

  /// Trace id and target of a traced request.
  struct words {
    std::string trace;
    std::string asked;
  };

  struct request {
    client_map::value_type* from = nullptr;
    client_tag tag;
    size_t model = 0;
    bool any_version = true;            ///< any version of its model will do
    std::unique_ptr<const infer> asked; ///< null: names only a model
    timestamp arrived;
    timestamp due;
    size_t bytes = 0;
    uint32_t attempts = 0;
    std::vector<vain_attempt> vain;
    std::unique_ptr<const words> named; ///< null: not traced
  };

  timestamp now() const;
  // demand.cpp
  demand_count& demand_for(const std::string& model);
  template <class T>
  void to_controllers(const T& message);
  void begin_report();
  void send_report();
  void count_refused(const std::string& model, const session& from, ec status);
  counter& answers_of(served& model, uint32_t endpoint, ec status);
  void show_answers(served& model);
  void show_times(served& model);
  void hide_if_over(served& model);
  bool may_answer(const std::string& model) const;
  bool is_for(const std::vector<std::string>& tenants,
              const session& from) const;
  bool is_for(const served& model, const session& from) const;
  result<size_t> choose(const infer& request, const session& from) const;
  // selection.cpp
  static double wait_at(const served& model);
  static bool is_in_time(const served& model);
  const variant_catalogue& catalogue() const;
  std::optional<size_t> choose_by_cost(const infer& request,
                                       const session& from) const;
  std::optional<error> why_not_yet(const infer& request,
                                   const session& from) const;
  result<void> admit(client_request& request, client_map::value_type& from,
                     timestamp time);
  result<void> check_room(const client_request& request, const client& from,
                          size_t bytes) const;
  const wanted_model* find_wanted(const std::string& model) const;
  bool is_assigned(const replica_ready& message) const;
  void hold(replica_ready& message);
  void take_assigned();
  served* model_of(const model_info& info, const serving_policy& policy,
                   bool waits = false);
  void serve_waiting(const wanted_model& wanted);
  void adopt_settings(const wanted_model& wanted);
  void press(const served& model);
  static error stuck(const served& model);
  served* free_place();
  static bool is_ready(const served& model);
  bool is_waited_for(const served& model) const;
  void end_what_nobody_waits_for(const std::string& model);
  void choose_anew(const served& model);
  bool move_to(size_t to, routed& passed, request& r);
  result<void> pass_on(routed& passed, request& r);
  void hand_to_router(size_t model, routed passed);
  void send_routes();
  void refuse(client_request& request, const session& from, const error& why);
  void note_execution(const requests_completed& message);
  void settle(outcome& answer, const requests_completed& with, timestamp time);
  void cancel(uint64_t key, const char* why);
  /// `by`: the batch with the result; null: the request has none.
  void finish_request(uint64_t key, request& r, infer_reply reply,
                      timestamp time, const requests_completed* by = nullptr);
  static std::unique_ptr<const words> words_of(const client_request& request);
  void remember(const client_request& request, const session& from,
                const error& why);
  void remember(uint64_t key, const request& r, const infer_reply& reply,
                timestamp time, const requests_completed* by);
  request_story story_of(uint64_t key, const request& r) const;
  std::vector<uint64_t> open_ones(const std::string& which) const;
  void forget_idle(const session& client);
  void end_if_finished();
  void on_down(const caf::down_msg& message);
  void arm();

  gateway_actor::stateful_pointer<gateway_state> self_ = nullptr;
  bus* bus_ = nullptr;
  std::shared_ptr<metrics> counts_;
  gateway_options options_;
  std::vector<served> models_;              ///< requests in flight hold indices
  string_map<std::vector<size_t>> by_name_; ///< indices of a model's versions
  /// Variants by index in models_; none: out of date.
  mutable std::optional<variant_catalogue> catalogue_;
  std::vector<size_t> to_send_; ///< indices of models with a next message
  wanted_models wanted_;        ///< epoch 0: none received yet
  /// Announcements of replicas that no controller has assigned yet.
  std::deque<replica_ready> unassigned_;
  std::unordered_map<uint64_t, request> in_flight_;
  client_map clients_; ///< clients with open requests
  deadline_queue<uint64_t> deadlines_;
  notable_requests notable_;
  uint64_t last_key_ = 0;
  size_t bytes_ = 0;
  bool finishing_ = false;
  bool closed_ = false; ///< the bus refuses client requests
  alarm alarm_;
  timestamp begun_;
  std::map<std::string, demand_count> demand_; ///< by model
  /// Refused requests by model, endpoint and status. Models that are neither
  /// served nor wanted count as one.
  std::map<std::tuple<std::string, uint32_t, ec>, counter> refused_;
  std::set<std::string> controllers_; ///< connected controller nodes
  timestamp report_due_ = far_future;
  timestamp all_reported_;      ///< time of the last report with all models
  size_t backlogs_awaited_ = 0; ///< routers that have not answered yet
  uint64_t last_report_ = 0;
};

} // namespace millrace
