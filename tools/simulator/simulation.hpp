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

/// One run of a scenario, from an empty cluster to the last answer: clients,
/// faults, and who watches.
class simulation : private broadcast {
public:
  /// What an intruder's orders say, so that none could be newer.
  static constexpr auto intruder_epoch = std::numeric_limits<uint64_t>::max();

  struct options {
    uint64_t seed = 1;
    std::vector<fault> faults; ///< on top of those of the scenario
    /// When everything is undone and every node started; none: never.
    std::optional<microseconds> heal_at;
    /// Actors that are ready together run in an order of chance.
    bool shuffle = false;
    /// Part of the requests that their clients give up before the answer.
    double cancelled = 0;
    /// An operator says, now and then, what only a controller may.
    bool intruder = false;
    /// An operator registers and forgets, now and then, a model without
    /// replicas.
    bool registers = false;
    planted_bug bug = planted_bug::none;
    /// More messages than this at one moment, and the run is given up.
    uint64_t most_at_once = 50'000'000;
  };

  /// The scenario outlives it. Errors: bad_request when the workload cannot be
  /// made.
  static result<std::unique_ptr<simulation>>
  prepare(const loaded_scenario& what, options how);
  ~simulation() override;

  /// Has somebody see everything; he outlives the run.
  using broadcast::add;

  /// Runs it; `progress` is told now and then which part is done. Ends early
  /// when `stop` says so, which is asked after every event.
  void run(const std::function<void(double part)>& progress = {},
           const std::function<bool()>& stop = {});

  /// While it runs, and until finish(): for who wants to look at the end.
  cluster& inside() { return *cluster_; }
  timestamp begin() const { return begin_; }
  /// What each limited link carried during the workload.
  const std::vector<link_use>& links() const { return links_; }
  /// And since the cluster started. Until finish().
  std::vector<link_use> all_links() const;
  /// Requests without an answer.
  size_t open() const { return open_.size(); }

  /// Asks an actor of a node as an operator does; null when no answer comes
  /// within a second. Only when the run is over.
  template <class Answer, declared Question>
  std::optional<Answer> ask(const std::string& node, const std::string& actor,
                            const Question& x) {
    if (!cluster_->at(node).running())
      return std::nullopt;
    answer_.reset();
    cluster_->at(node).bus()->operator_says(++last_question_,
                                            node + "/" + actor, x);
    world_->run_until(now() + 1s, [this] { return answer_.has_value(); });
    if (!answer_ || !answer_->template match_elements<Answer>())
      return std::nullopt;
    return answer_->template get_as<Answer>(0);
  }

  /// Ends every process.
  void finish();

  /// The run was given up.
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

  void on_reply(const session& from, uint64_t id, const infer_reply& x,
                timestamp when) override;
  void on_operator_answer(const std::string& node, uint64_t id,
                          const caf::message& x) override;
  void on_node(const std::string& node, std::string_view what,
               timestamp when) override;
  void on_machine(const std::string& machine, std::string_view what,
                  timestamp when) override;
  timestamp now() const { return world_->now(); }

  const loaded_scenario& what_;
  options how_;
  workload asked_;
  size_t next_ = 0; ///< of its requests
  std::vector<std::string> gateways_;
  size_t next_gateway_ = 0;
  std::unordered_map<uint64_t, const std::string*> open_; ///< at which gateway
  random_stream patience_{1};
  random_stream choice_{1};
  uint64_t last_question_ = 1'000'000;
  std::optional<caf::message> answer_;
  timestamp begin_;
  timestamp moment_;
  uint64_t before_moment_ = 0; ///< messages
  bool stuck_ = false;
  std::vector<link_use> unused_links_; ///< before the cluster started
  std::vector<link_use> links_;
  virtual_world* world_ = nullptr;
  ready_replicas ready_;
  use_meter use_{*this};
  std::unique_ptr<cluster> cluster_;
  std::unique_ptr<fault_injector> injector_;
};

} // namespace millrace::simulator
