// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <unordered_map>

#include "simulator/faults.hpp"
#include "simulator/machines.hpp"
#include "simulator/watcher.hpp"
#include "simulator/workload.hpp"

namespace millrace::simulator {

/// One run of a scenario, from an empty cluster to the last answer, with
/// clients, faults and watchers.
class simulation : private broadcast {
public:
  /// The epoch in an intruder's orders: the highest possible.
  static constexpr auto intruder_epoch = std::numeric_limits<uint64_t>::max();

  struct options {
    uint64_t seed = 1;
    std::vector<fault> faults; ///< in addition to the scenario's faults
    /// When all faults end and every node is started; empty: never.
    std::optional<microseconds> heal_at;
    /// Run actors that are ready at the same time in random order.
    bool shuffle = false;
    /// The part of the requests that clients cancel before the answer.
    double cancelled = 0;
    /// An operator sometimes sends orders that only a controller may send.
    bool intruder = false;
    /// An operator sometimes registers and forgets a model without replicas.
    bool registers = false;
    planted_bug bug = planted_bug::none;
    /// The run is stopped after more messages than this at one moment.
    uint64_t most_at_once = 50'000'000;
  };

  /// The scenario must outlive the simulation. Errors: bad_request when the
  /// workload cannot be made.
  static result<std::unique_ptr<simulation>>
  prepare(const loaded_scenario& what, options how);
  ~simulation() override;

  /// Adds a watcher of all events, which must outlive the run.
  using broadcast::add;

  /// Runs the simulation. `progress` is sometimes called with the part that is
  /// done. Ends early when `stop`, called after every event, returns true.
  void run(const std::function<void(double part)>& progress = {},
           const std::function<bool()>& stop = {});

  /// The cluster, during the run and until finish().
  cluster& inside() { return *cluster_; }
  timestamp begin() const { return begin_; }
  /// The bytes that each limited link carried during the workload.
  const std::vector<link_use>& links() const { return links_; }
  /// The bytes since the start of the cluster; valid until finish().
  std::vector<link_use> all_links() const;
  /// Requests without an answer.
  size_t open() const { return open_.size(); }

  /// Sends a request to a node's actor as an operator; empty without an answer
  /// within a second. Valid only after the run.
  template <class Answer, declared Question>
  std::optional<Answer> ask(const std::string& node, const std::string& actor,
                            const Question& question) {
    if (!cluster_->at(node).running())
      return std::nullopt;
    answer_.reset();
    cluster_->at(node).bus()->operator_says(++last_question_,
                                            node + "/" + actor, question);
    world_->run_until(now() + 1s, [this] { return answer_.has_value(); });
    if (!answer_ || !answer_->template match_elements<Answer>())
      return std::nullopt;
    return answer_->template get_as<Answer>(0);
  }

  /// Ends every process.
  void finish();

  /// Whether the run was stopped because of a livelock.
  bool stuck() const { return stuck_; }

private:
  simulation(const loaded_scenario& what, options how, workload asked);
  void schedule();
  void submit();
  bool stands_still();
  void schedule_faults();
  void intrude();
  void register_something();
  node* next_gateway();
  void cancel_some(const std::string& gateway, const session& from,
                   uint64_t id);

  void on_reply(const session& from, uint64_t id, const infer_reply& reply,
                timestamp when) override;
  void on_operator_answer(const std::string& node, uint64_t id,
                          const caf::message& content) override;
  void on_node(const std::string& node, std::string_view what,
               timestamp when) override;
  void on_machine(const std::string& machine, std::string_view what,
                  timestamp when) override;
  timestamp now() const { return world_->now(); }

  const loaded_scenario& what_;
  options how_;
  workload asked_;
  size_t next_ = 0; ///< index of the part's next request
  std::vector<std::string> gateways_;
  size_t next_gateway_ = 0;
  /// request to its gateway
  std::unordered_map<uint64_t, const std::string*> open_;
  random_stream patience_{1};
  random_stream choice_{1};
  uint64_t last_question_ = 1'000'000;
  std::optional<caf::message> answer_;
  timestamp begin_;
  timestamp moment_;
  uint64_t before_moment_ = 0; ///< messages handled before the current moment
  bool stuck_ = false;
  std::vector<link_use> unused_links_; ///< as of the start of the cluster
  std::vector<link_use> links_;
  virtual_world* world_ = nullptr;
  ready_replicas ready_;
  use_meter use_{*this};
  std::unique_ptr<cluster> cluster_;
  std::unique_ptr<fault_injector> injector_;
};

} // namespace millrace::simulator
