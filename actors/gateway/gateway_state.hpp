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

  /// Answers what is still open: even a gateway that crashes leaves nobody
  /// waiting.
  ~gateway_state();

  void start(gateway_actor::stateful_pointer<gateway_state> self,
             gateway_options options, bus* net,
             std::shared_ptr<metrics> counts);

  void on_requests(request_group& x);
  void on_cancel(const client_cancel& x);
  void on_left(const client_left& x);
  void on_describe(const client_describe& x);
  void on_ready(replica_ready& x);
  void on_tuned(const replica_tuned& x);
  void on_draining(const replica_draining& x);
  void on_completed(requests_completed& x);
  void on_returned(requests_returned& x);
  void on_model_availability(const model_availability& x);
  void on_wanted(wanted_models& x);
  caf::result<request_list> on_get_requests(const get_requests& x);
  void on_track(request_track& x);
  void on_backlog(const backlog& x);
  void on_peer_up(const peer_up& x);
  void on_peer_down(const peer_down& x);
  void add_late(outcome& x);
  void on_finish();
  void on_tick();

private:
  /// A model version that some replica serves or served (served_models.cpp).
  struct served {
    model_info info;
    std::vector<std::string> tenants; ///< that it exists for; empty: all
    serving_policy policy;
    router_actor router;
    std::set<caf::actor_id> replicas; ///< ready ones, of all layers or some
    std::set<caf::actor_id> draining; ///< not ended yet: the router leads them
    bool through = false;             ///< they lead through all layers
    bool ended = false;               ///< as if it had never been served
    microseconds latency{0}; ///< moving average of what executions took
    timestamp latency_learned;
    /// Answers by endpoint and status; like the times below shown until the
    /// version has ended and its last request is answered.
    std::map<std::pair<uint32_t, ec>, counter> by_status;
    size_t open = 0;                ///< requests in flight
    demand_count* demand = nullptr; ///< of its model, whatever the version
    /// Requests wait while there is no replica, unless none can be started.
    bool waits = false;
    std::string obstacle{}; ///< why none can be; empty: it can
    microseconds slo{0};    ///< as in model_settings
    /// As the scaling policy of the application sees the variant; nothing: no
    /// policy compares it with others.
    std::optional<variant_standing> standing{};
    route next; ///< admitted, not yet on their way to the router
    std::optional<histogram> queue_time, execute_time, total_time,
      gathered_time, interference_time;

    model_label label() const { return {info.model, info.version}; }
  };

  /// What one connection has open.
  struct client {
    std::unordered_map<uint64_t, uint64_t> requests; ///< its id -> key
    size_t bytes = 0;
  };
  struct session_hash {
    size_t operator()(const session& x) const {
      return std::hash<std::string>{}(x.connection) + x.endpoint;
    }
  };
  using client_map = std::unordered_map<session, client, session_hash>;

  /// Of a request that its client gave a name: this, and what it asked for.
  struct words {
    std::string trace;
    std::string asked;
  };

  struct request {
    client_map::value_type* from = nullptr;
    client_tag tag;
    size_t model = 0;
    bool any_version = true;            ///< of its model will do
    std::unique_ptr<const infer> asked; ///< if more than just a model
    timestamp arrived;
    timestamp due;
    size_t bytes = 0;
    uint32_t attempts = 0;
    std::vector<vain_attempt> vain;
    std::unique_ptr<const words> named; ///< what the client calls it; or null
  };

  timestamp now() const;
  // demand.cpp
  demand_count& demand_for(const std::string& model);
  template <class T>
  void to_controllers(const T& x);
  void begin_report();
  void send_report();
  void count_refused(const std::string& model, const session& from, ec status);
  counter& answers_of(served& x, uint32_t endpoint, ec status);
  void show_answers(served& x);
  void show_times(served& x);
  void hide_if_over(served& x);
  bool may_answer(const std::string& model) const;
  bool is_for(const std::vector<std::string>& tenants,
              const session& who) const;
  bool is_for(const served& x, const session& who) const;
  result<size_t> choose(const infer& x, const session& who) const;
  // selection.cpp
  static double wait_at(const served& x);
  static bool is_in_time(const served& x);
  const variant_catalogue& catalogue() const;
  std::optional<size_t> choose_by_cost(const infer& x,
                                       const session& from) const;
  std::optional<error> why_not_yet(const infer& x, const session& who) const;
  result<void> admit(client_request& x, client_map::value_type& from,
                     timestamp time);
  result<void> check_room(const client_request& x, const client& from,
                          size_t bytes) const;
  const wanted_model* find_wanted(const std::string& model) const;
  bool is_assigned(const replica_ready& x) const;
  void hold(replica_ready& x);
  void take_assigned();
  served* model_of(const model_info& info, const serving_policy& policy,
                   bool waits = false);
  void serve_waiting(const wanted_model& x);
  void adopt_settings(const wanted_model& x);
  void press(const served& x);
  static error stuck(const served& x);
  served* free_place();
  static bool is_ready(const served& x);
  bool is_waited_for(const served& x) const;
  void end_what_nobody_waits_for(const std::string& model);
  void choose_anew(const served& x);
  bool move_to(size_t to, routed& x, request& r);
  result<void> pass_on(routed& x, request& r);
  void hand_to_router(size_t model, routed x);
  void send_routes();
  void refuse(client_request& x, const session& from, const error& why);
  void note_execution(const requests_completed& x);
  void settle(outcome& x, const requests_completed& with, timestamp time);
  void cancel(uint64_t key, const char* why);
  /// `by`: who computed it, if anybody did.
  void finish_request(uint64_t key, request& r, infer_reply x, timestamp time,
                      const requests_completed* by = nullptr);
  static std::unique_ptr<const words> words_of(const client_request& x);
  void remember(const client_request& x, const session& from, const error& why);
  void remember(uint64_t key, const request& r, const infer_reply& x,
                timestamp time, const requests_completed* by);
  request_story story_of(uint64_t key, const request& r) const;
  std::vector<uint64_t> open_ones(const std::string& which) const;
  void forget_idle(const session& x);
  void end_if_finished();
  void on_down(const caf::down_msg& x);
  void arm();

  gateway_actor::stateful_pointer<gateway_state> self_ = nullptr;
  bus* bus_ = nullptr;
  std::shared_ptr<metrics> counts_;
  gateway_options options_;
  std::vector<served> models_;              ///< requests in flight hold indices
  string_map<std::vector<size_t>> by_name_; ///< a model's versions there
  /// Variants by their place in models_; nothing after a change.
  mutable std::optional<variant_catalogue> catalogue_;
  std::vector<size_t> to_send_; ///< those with a next message
  wanted_models wanted_;        ///< of epoch 0: no controller has said so yet
  /// Announcements of replicas that no controller has assigned yet.
  std::deque<replica_ready> unassigned_;
  std::unordered_map<uint64_t, request> in_flight_;
  client_map clients_; ///< those with open requests
  deadline_queue<uint64_t> deadlines_;
  notable_requests notable_;
  uint64_t last_key_ = 0;
  size_t bytes_ = 0;
  bool finishing_ = false;
  bool closed_ = false; ///< the bus sends nothing more
  alarm alarm_;
  timestamp begun_;
  std::map<std::string, demand_count> demand_; ///< by model
  /// Refused requests by model, endpoint and status. Models that are neither
  /// served nor wanted count as one.
  std::map<std::tuple<std::string, uint32_t, ec>, counter> refused_;
  std::set<std::string> controllers_; ///< nodes that this is linked to
  timestamp report_due_ = far_future;
  timestamp all_reported_;      ///< when a report had all models
  size_t backlogs_awaited_ = 0; ///< answers of routers, for the next report
  uint64_t last_report_ = 0;
};

} // namespace millrace
