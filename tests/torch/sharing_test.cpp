// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include <caf/scoped_actor.hpp>

#include "actors/executor/executor_state.hpp"
#include "models/bundle_store.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/eventually.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// An EXECUTOR with the host's processors as a device of two lanes, and two
/// replicas of a model that send batches to the executor.
class executor_on_processors {
public:
  explicit executor_on_processors(const device_sharing& sharing) {
    add_error_category(config_);
    system_ = std::make_unique<caf::actor_system>(config_);
    spans_->start(1000);
    device_info info{"cpu0", "cpu", 2, {}, sharing};
    device_factory make = [info](device_listener& to) {
      return make_backend_device(info, {isolation_mode::thread}, to);
    };
    caf::scoped_actor self{*system_};
    executor_ = self->spawn(executor, info, make, supervisor_actor{}, nullptr,
                            counts_, spans_);
    auto opened = bundle_store{TEST_BUNDLES}.open("affine", "", verify::sizes);
    REQUIRE(opened);
    auto content = std::make_shared<const bundle>(std::move(*opened));
    for (uint64_t instance : {1, 2}) {
      replicas_.push_back(system_->spawn([this](caf::event_based_actor* by) {
        by->set_default_handler(caf::drop);
        return caf::behavior{
          [this](const execution_report& x) { answered_ += x.ok(); },
          [this](const stage_loaded&) { ++loaded_; }};
      }));
      load_stage what;
      what.instance = instance;
      what.content = content;
      what.last_layer = 1;
      caf::send_as(replicas_.back(), executor_, what);
    }
    REQUIRE(eventually([this] { return loaded_ == 2; }, 60s));
  }

  ~executor_on_processors() {
    for (auto& x : replicas_)
      caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(executor_, caf::exit_reason::user_shutdown);
  }

  /// Sends `each` batches from each replica at once. Returns the intervals in
  /// which they ran.
  std::vector<span> run(size_t each) {
    auto rows = floats({2'000'000, 4}); // about ten milliseconds
    for (size_t i = 0; i < each; ++i)
      for (uint64_t instance : {1, 2}) {
        execution what;
        what.id = i + 1;
        what.instance = instance;
        what.items = {{rows}};
        what.trace = instance;
        caf::send_as(replicas_[instance - 1], executor_, std::move(what));
      }
    CHECK(eventually([&] { return answered_ == 2 * each; }, 60s));
    auto out = spans_->kept(0, 1000);
    std::erase_if(out, [](auto& x) { return x.name != "runs"; });
    return out;
  }

private:
  std::atomic<size_t> loaded_{0};
  std::atomic<size_t> answered_{0};
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  std::shared_ptr<metrics> counts_ = std::make_shared<metrics>();
  std::shared_ptr<span_recorder> spans_ = std::make_shared<span_recorder>();
  executor_actor executor_;
  std::vector<caf::actor> replicas_;
};

/// Pairs of batches that ran at the same time.
size_t overlaps(const std::vector<span>& runs) {
  size_t out = 0;
  for (size_t i = 0; i < runs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      out += runs[i].from < runs[k].from + runs[k].length
             && runs[k].from < runs[i].from + runs[i].length;
  return out;
}

} // namespace

TEST_CASE("device sharing: on two lanes of a CPU device batches overlap in "
          "mode lanes and never in mode time") {
  executor_on_processors lanes_apart{{}};
  auto apart = lanes_apart.run(8);
  CHECK(apart.size() == 16);
  CHECK(overlaps(apart) > 0);
  executor_on_processors one_by_one{{sharing_mode::time, 0, 0}};
  auto in_turn = one_by_one.run(8);
  CHECK(in_turn.size() == 16);
  CHECK(overlaps(in_turn) == 0);
}
