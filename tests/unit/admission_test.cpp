// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "actors/executor/admission.hpp"
#include "tests/support/allocation_meter.hpp"

using namespace millrace;

namespace {

using batches = std::vector<uint64_t>;

constexpr uint64_t first_replica = 1;
constexpr uint64_t second_replica = 2;

/// All batches that may begin now.
batches begin_all(admission& queue) {
  batches out;
  while (auto id = queue.next())
    out.push_back(*id);
  return out;
}

/// Batches 1 to `count` of one replica.
void push_many(admission& queue, uint64_t count) {
  for (uint64_t id = 1; id <= count; ++id)
    queue.push(id, first_replica, 0);
}

/// Batches that begin when `times` running batches end, one after another.
batches begun_as_each_ends(admission& queue, size_t times) {
  batches out;
  for (size_t i = 0; i < times; ++i) {
    queue.ended(first_replica);
    auto next = begin_all(queue);
    out.insert(out.end(), next.begin(), next.end());
  }
  return out;
}

} // namespace

TEST_CASE("admission: each mode lets its number of batches begin on an idle"
          " device") {
  struct row {
    device_sharing sharing;
    uint32_t lanes;
    size_t begun;
    uint32_t places;
  };
  using enum sharing_mode;
  const row table[] = {
    {{sharing_mode::lanes, 0, 0}, 1, 2, 1},
    {{sharing_mode::lanes, 0, 0}, 2, 4, 2},
    {{time, 0, 0}, 4, 1, 1},
    {{space, 0, 0}, 3, 3, 3},
    {{space, 1, 0}, 3, 3, 3}, // at_once has no effect in mode space
    {{wave, 3, 0}, 4, 3, 3},
    {{wave, 0, 0}, 4, 4, 4},
    {{cap, 3, 0}, 4, 3, 3},
    {{cap, 0, 0}, 4, 4, 4},
    {{cap, 9, 0}, 4, 4, 4}, // at most the number of lanes
  };
  for (auto& [sharing, lane_count, begun, places] : table) {
    auto& how = sharing; // no lambda captures a structured binding
    CAPTURE(to_string(how.mode));
    CAPTURE(how.at_once);
    admission queue{lane_count, sharing};
    push_many(queue, 12);
    CHECK(queue.places() == places);
    CHECK(begin_all(queue).size() == begun);
    CHECK(queue.waiting() == 12 - begun);
  }
}

TEST_CASE("admission: in modes lanes, time, space and cap one batch begins when"
          " one ends") {
  for (auto mode : {sharing_mode::lanes, sharing_mode::time,
                    sharing_mode::space, sharing_mode::cap}) {
    CAPTURE(to_string(mode));
    admission queue{2, {mode, 0, 0}};
    push_many(queue, 12);
    auto begun = begin_all(queue).size();
    for (auto id = begun + 1; id <= begun + 3; ++id)
      CHECK(begun_as_each_ends(queue, 1) == batches{id});
  }
}

TEST_CASE("PA-41, PA-42: in mode wave batches behind the wave run one at a time"
          " in order of arrival") {
  admission queue{4, {sharing_mode::wave, 3, 0}};
  push_many(queue, 6);
  CHECK(begin_all(queue) == batches{1, 2, 3});
  CHECK(begun_as_each_ends(queue, 2).empty());
  CHECK(queue.places() == 1);
  CHECK(begun_as_each_ends(queue, 1) == batches{4});
  CHECK(begun_as_each_ends(queue, 1) == batches{5});
  queue.push(7, first_replica, 0);
  CHECK(begun_as_each_ends(queue, 1) == batches{6});
  CHECK(begun_as_each_ends(queue, 1) == batches{7});
  CHECK(begun_as_each_ends(queue, 1).empty());
  push_many(queue, 6);
  CHECK(begin_all(queue) == batches{1, 2, 3});
}

TEST_CASE(
  "admission: an open wave takes batches as they come until at_once have"
  " begun") {
  admission queue{4, {sharing_mode::wave, 3, 0}};
  push_many(queue, 2);
  CHECK(begin_all(queue).size() == 2);
  queue.ended(first_replica);
  push_many(queue, 2); // the third batch of the wave, and a later one
  CHECK(begin_all(queue).size() == 1);
  queue.ended(first_replica);
  CHECK(begin_all(queue).empty());
  queue.ended(first_replica);
  CHECK(begin_all(queue).size() == 1);
}

TEST_CASE("admission: a device that becomes idle opens the next wave early") {
  admission queue{4, {sharing_mode::wave, 3, 0}};
  push_many(queue, 2);
  CHECK(begin_all(queue).size() == 2);
  CHECK(begun_as_each_ends(queue, 2).empty());
  push_many(queue, 4);
  CHECK(begin_all(queue).size() == 3);
}

TEST_CASE("admission: a batch that does not start on the device leaves its "
          "place in the wave free") {
  admission queue{4, {sharing_mode::wave, 2, 0}};
  push_many(queue, 4);
  CHECK(queue.next() == 1);
  queue.returned(first_replica);
  CHECK(begin_all(queue) == batches{2, 3});
}

TEST_CASE(
  "admission: waiting batches are ordered by priority and then by arrival") {
  admission queue{1, {sharing_mode::time, 0, 0}};
  queue.push(1, first_replica, 0);
  queue.push(2, first_replica, 9);
  queue.push(3, first_replica, 9);
  CHECK(begin_all(queue) == batches{2});
  CHECK(begun_as_each_ends(queue, 2) == batches{3, 1});
}

TEST_CASE("admission: a batch of a replica at its limit is passed over by"
          " batches of other replicas") {
  struct row {
    uint32_t of_replica, of_device;
    batches begun;
  };
  const row table[] = {
    {0, 0, {1, 2, 3, 4}}, // no limit
    {1, 0, {1, 3, 4}},    // the replica's own limit
    {0, 1, {1, 3}},       // the device's limit for each replica
    {2, 1, {1, 3}},       // the smaller of both limits
    {1, 2, {1, 3, 4}}, // only the device's limit holds for the second replica
  };
  for (auto& [of_replica, of_device, begun] : table) {
    auto limits = std::pair{of_replica, of_device};
    CAPTURE(limits.first);
    CAPTURE(limits.second);
    admission queue{2, {sharing_mode::lanes, 0, of_device}};
    queue.set_limit(first_replica, of_replica);
    queue.set_limit(second_replica, 0);
    queue.push(1, first_replica, 0);
    queue.push(2, first_replica, 0);
    queue.push(3, second_replica, 0);
    queue.push(4, second_replica, 0);
    CHECK(begin_all(queue) == begun);
  }
}

TEST_CASE("admission: a batch that was passed over is first when its replica "
          "ends a batch") {
  admission queue{2, {sharing_mode::space, 0, 0}};
  queue.set_limit(first_replica, 1);
  queue.set_limit(second_replica, 0);
  queue.push(1, first_replica, 0);
  queue.push(2, first_replica, 0);
  for (uint64_t id = 3; id <= 6; ++id)
    queue.push(id, second_replica, 0);
  CHECK(begin_all(queue) == batches{1, 3});
  queue.ended(second_replica);
  CHECK(begin_all(queue) == batches{4});
  queue.ended(first_replica);
  CHECK(begin_all(queue) == batches{2});
}

TEST_CASE("admission: a changed limit holds for batches that begin later") {
  admission queue{4, {sharing_mode::cap, 0, 0}};
  queue.set_limit(first_replica, 1);
  push_many(queue, 8);
  CHECK(begin_all(queue) == batches{1});
  queue.set_limit(first_replica, 3);
  CHECK(begin_all(queue) == batches{2, 3});
  queue.set_limit(first_replica, 2);
  CHECK(begun_as_each_ends(queue, 1).empty());
  CHECK(begun_as_each_ends(queue, 1) == batches{4});
  queue.set_limit(first_replica, 0);
  CHECK(begin_all(queue) == batches{5, 6});
}

TEST_CASE(
  "admission: a changed sharing mode holds for batches that begin later") {
  admission queue{4, {sharing_mode::space, 0, 0}};
  push_many(queue, 8);
  CHECK(begin_all(queue).size() == 4);
  queue.set_sharing({sharing_mode::time, 0, 0});
  CHECK(begun_as_each_ends(queue, 3).empty());
  CHECK(begun_as_each_ends(queue, 1) == batches{5});
  queue.set_sharing({sharing_mode::wave, 2, 0}); // one of two runs already
  CHECK(begin_all(queue) == batches{6});
  CHECK(begun_as_each_ends(queue, 1).empty());
  CHECK(begun_as_each_ends(queue, 1) == batches{7});
}

TEST_CASE(
  "admission: the limit of an unloaded instance does not delay its batches") {
  admission queue{4, {sharing_mode::space, 0, 1}};
  queue.set_limit(first_replica, 1);
  push_many(queue, 3);
  CHECK(begin_all(queue) == batches{1});
  queue.forget(first_replica);
  CHECK(queue.next() == 2);
  queue.returned(first_replica);
  CHECK(queue.next() == 3);
  queue.returned(first_replica);
  queue.ended(first_replica);
  queue.set_limit(first_replica, 0); // loaded again
  push_many(queue, 3);
  CHECK(begin_all(queue) == batches{1});
}

TEST_CASE(
  "admission: by default a batch of a loaded instance needs one allocation") {
  admission queue{2, {}};
  queue.set_limit(first_replica, 0);
  test::failing_allocation second{2};
  queue.push(1, first_replica, 0);
  auto begun = queue.next();
  queue.ended(first_replica);
  auto happened = second.happened();
  CHECK(begun == 1);
  CHECK_FALSE(happened);
}
