// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "actors/executor/executor_state.hpp"
#include "models/device/emulated_device.hpp"
#include "runtime/virtual/world.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/why.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Each batch of one row takes ten milliseconds alone.
const emulation ten_ms_a_row{50ms, 9ms, 1ms};

constexpr uint64_t first_copy = 1;
constexpr uint64_t second_copy = 2;

/// An EXECUTOR with an emulated device in virtual time, and replicas that send
/// batches to the executor.
class executor_in_virtual_time {
public:
  executor_in_virtual_time(uint32_t lanes, const device_sharing& sharing,
                           const emulation& how = ten_ms_a_row)
    : process_(world_.add_process("node")) {
    device_info info{"emu0", "emulated", lanes, {}, sharing};
    device_factory make = [info, how](device_listener& to) {
      return result<std::unique_ptr<device>>{
        make_emulated_device(info, how, to)};
    };
    spans_->start(1000);
    soon([this, info, make] {
      auto counts = std::make_shared<metrics>(recording::off);
      executor_ = process_.adopt(process_.system().spawn(
        executor, info, make, supervisor_actor{}, nullptr, counts, spans_));
    });
  }

  /// Loads a replica's copy, which takes 50 ms.
  void load(uint64_t instance, uint32_t concurrency = 0) {
    soon([this, instance, concurrency] {
      auto& replica = replicas_[instance] = process_.adopt(caf::actor{
        process_.system().spawn([this](caf::event_based_actor* self) {
          self->set_default_handler(caf::drop);
          return caf::behavior{
            [this](const execution_report& x) {
              ++answers_[x.ok() ? ec::ok : x.outputs.failure().code];
            },
            [this](const stage_lost& x) { lost_ = x.text; },
            [](const stage_loaded&) {}};
        })});
      load_stage what;
      what.instance = instance;
      what.content = make_bundle("m");
      what.last_layer = 1;
      what.concurrency = concurrency;
      caf::send_as(replica, executor_, what);
    });
    advance(50ms);
  }

  /// Sends `count` batches of one row from a replica, for its own instance or
  /// for `other`.
  void send(uint64_t instance, size_t count, deadline until = {},
            uint64_t other = 0) {
    soon([this, instance, count, until, other] {
      for (size_t i = 0; i < count; ++i) {
        execution what;
        what.id = ++last_;
        what.instance = other == 0 ? instance : other;
        what.items = {{floats({1, 4})}};
        what.trace = what.instance;
        what.until = until.at;
        caf::send_as(replicas_.at(instance), executor_, std::move(what));
      }
    });
  }

  void tell(uint64_t instance, const tune_stage& what) {
    soon([this, instance, what] {
      caf::send_as(replicas_.at(instance), executor_, what);
    });
  }

  /// The answer to a message, or its error.
  template <class Answer, class Question>
  result<Answer> ask(const Question& what) {
    result<Answer> out{error{ec::internal, "no answer", {}}};
    soon([&] {
      auto by = process_.adopt(process_.system().spawn(
        [this, &out, what](caf::event_based_actor* self) {
          self->request(executor_, 1s, what)
            .then([&out](const Answer& answer) { out = answer; },
                  [&out](const caf::error& why) { out = from_caf(why); });
        }));
    });
    return out;
  }

  void advance(microseconds length) { world_.run_for(length); }
  timestamp now() { return process_.local(world_.now()); }

  /// Spans of batches that ran; `batch` of a span is the replica.
  std::vector<span> runs() const {
    auto out = spans_->kept(0, 1000);
    std::erase_if(out, [](auto& x) { return x.name != "runs"; });
    return out;
  }

  size_t answered(ec status) { return answers_[status]; }
  const std::string& lost() const { return lost_; }

private:
  void soon(std::function<void()> what) {
    world_.soon(process_, std::move(what));
    advance(0us);
  }

  virtual_world world_;
  virtual_process& process_;
  std::shared_ptr<span_recorder> spans_ = std::make_shared<span_recorder>();
  executor_actor executor_;
  std::map<uint64_t, caf::actor> replicas_;
  std::map<ec, size_t> answers_;
  std::string lost_;
  uint64_t last_ = 0;
};

/// The most batches that ran together.
size_t most_together(const std::vector<span>& runs) {
  size_t out = 0;
  for (auto& x : runs)
    out = std::max(out, static_cast<size_t>(std::count_if(
                          runs.begin(), runs.end(), [&](auto& other) {
                            return other.from <= x.from
                                   && other.from + other.length > x.from;
                          })));
  return out;
}

std::vector<span> runs_of(uint64_t replica, std::vector<span> runs) {
  std::erase_if(runs, [&](auto& x) { return x.batch != replica; });
  return runs;
}

} // namespace

TEST_CASE("executor: the concurrency of a load limits only its replica") {
  executor_in_virtual_time on{3, {}};
  on.load(first_copy, 1);
  on.load(second_copy);
  on.send(first_copy, 4);
  on.send(second_copy, 4);
  on.advance(1s);
  CHECK(on.answered(ec::ok) == 8);
  CHECK(most_together(runs_of(first_copy, on.runs())) == 1);
  CHECK(most_together(runs_of(second_copy, on.runs())) == 2);
  CHECK(most_together(on.runs()) == 3);
}

TEST_CASE(
  "executor: the concurrency of a loaded replica is changed without a reload") {
  executor_in_virtual_time on{2, {}};
  on.load(first_copy, 1);
  on.tell(first_copy, {first_copy, 2, 0});
  on.tell(first_copy, {99, 7, 0}); // an instance that does not exist
  on.send(first_copy, 4);
  on.advance(1s);
  CHECK(most_together(on.runs()) == 2);
  on.tell(first_copy, {first_copy, 1, 0});
  on.send(first_copy, 4);
  on.advance(1s);
  auto runs = on.runs();
  CHECK(runs.size() == 8);
  CHECK(most_together({runs.begin() + 4, runs.end()}) == 1);
}

TEST_CASE("executor: the sharing mode of a device is changed and reported "
          "while batches wait") {
  executor_in_virtual_time on{4, {}};
  on.load(first_copy);
  on.send(first_copy, 12);
  auto changed =
    on.ask<device_sharing>(share_device{{sharing_mode::cap, 2, 0}});
  INFO(why(changed));
  REQUIRE(changed);
  CHECK(changed->at_once == 2);
  CHECK(on.ask<device_load>(get_load{})->sharing == *changed);
  on.advance(1s);
  auto runs = on.runs();
  CHECK(runs.size() == 12);
  // Eight batches were on the device before and end in the old mode.
  CHECK(most_together({runs.begin(), runs.begin() + 8}) == 4);
  CHECK(most_together({runs.begin() + 8, runs.end()}) == 2);
}

TEST_CASE("executor: a sharing mode with more batches at once than lanes is "
          "refused by name and the old mode stays") {
  executor_in_virtual_time on{2, {sharing_mode::time, 0, 0}};
  auto refused =
    on.ask<device_sharing>(share_device{{sharing_mode::cap, 3, 0}});
  REQUIRE_FALSE(refused);
  CHECK(refused.failure().code == ec::bad_request);
  CHECK(refused.failure().text
        == "device 'emu0': sharing.at_once: found 3, expected at most 2"
           " (lanes of the device)");
  CHECK(on.ask<device_load>(get_load{})->sharing.mode == sharing_mode::time);
}

TEST_CASE("executor: batches for an instance that is not loaded take no place "
          "of a wave") {
  executor_in_virtual_time on{3, {sharing_mode::wave, 2, 0}};
  on.load(first_copy);
  on.send(first_copy, 1);
  on.send(first_copy, 5, {}, 99);
  on.send(first_copy, 1);
  on.advance(1s);
  CHECK(on.answered(ec::unavailable) == 5);
  CHECK(most_together(runs_of(first_copy, on.runs())) == 2);
}

TEST_CASE("executor: a device with one admitted batch that hangs is out of "
          "service with any number of lanes") {
  const emulation endless{50ms, 3600s, 1ms};
  executor_in_virtual_time on{2, {sharing_mode::time, 0, 0}, endless};
  on.load(first_copy);
  on.send(first_copy, 1, {on.now() + 100ms});
  on.advance(59s);
  CHECK(on.lost().empty());
  on.advance(2s);
  CHECK_FALSE(on.lost().empty());
}

TEST_CASE("executor: a device is out of service if a replica at its limit "
          "hangs while another batch of the replica waits") {
  const emulation endless{50ms, 3600s, 1ms};
  executor_in_virtual_time on{2, {}, endless};
  on.load(first_copy, 1);
  on.send(first_copy, 1, {on.now() + 100ms});
  on.advance(2min);
  CHECK(on.lost().empty()); // a lane is still free
  on.send(first_copy, 1, {on.now() + 100ms});
  on.advance(1s);
  CHECK_FALSE(on.lost().empty());
}

TEST_CASE("emulated device: a batch slows down when a neighbour starts and "
          "speeds up when it ends") {
  emulation how = ten_ms_a_row;
  how.interference.slowdown = 1; // one neighbour doubles the time
  executor_in_virtual_time on{2, {sharing_mode::space, 0, 0}, how};
  on.load(first_copy);
  on.send(first_copy, 1);
  on.advance(5ms);
  on.send(first_copy, 1);
  on.advance(1s);
  // Half of the first batch runs alone and its other half takes 10 ms. Half of
  // the second batch takes 10 ms too, and its rest runs alone.
  auto runs = on.runs();
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].length == 15ms);
  CHECK(runs[1].length == 15ms);
}
