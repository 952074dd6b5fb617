// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/policies/select/variants.hpp"
#include "actors/router/request_queue.hpp"
#include "models/batch_times.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

queued_request make_request(uint64_t key, timestamp arrived, uint64_t rows = 1,
                            int32_t priority = 0, timestamp due = far_future) {
  queued_request out;
  out.key = key;
  out.arrived = arrived;
  out.rows = rows;
  out.priority = priority;
  out.due = {due};
  out.inputs = {floats({static_cast<int64_t>(rows), 4})};
  return out;
}

std::vector<uint64_t> keys_of(const std::vector<queued_request>& xs) {
  std::vector<uint64_t> out;
  for (auto& x : xs)
    out.push_back(x.key);
  return out;
}

/// A queue with requests of one row each, keys from 1.
request_queue filled(const serving_policy& policy, size_t n) {
  request_queue out{policy, 0};
  for (size_t i = 1; i <= n; ++i) {
    auto x = make_request(i, at(0s));
    out.push(x);
  }
  return out;
}

using keys = std::vector<uint64_t>;

batch_limit up_to(uint64_t rows = 64, uint64_t rows_max = 4096) {
  return {rows, rows_max, 1};
}

} // namespace

TEST_CASE("router: a full queue refuses a request") {
  serving_policy policy;
  policy.queue = 2;
  auto q = filled(policy, 2);
  auto x = make_request(3, at(0s));
  CHECK_FALSE(q.push(x));
  CHECK(x.key == 3);
  CHECK(q.find(1) != nullptr);
  auto out = q.take_out(1);
  REQUIRE(out);
  CHECK(out->key == 1);
  CHECK(q.find(1) == nullptr);
  CHECK_FALSE(q.take_out(1));
  CHECK(q.push(x));
}

TEST_CASE("router: a request that waits for a batch is not due while no "
          "replica is free") {
  serving_policy policy;
  policy.batch_delay = 5ms;
  request_queue q{policy, 0};
  auto x = make_request(1, at(0s));
  x.due.at = at(1s);
  REQUIRE(q.push(x));
  CHECK(q.next_due(64) == at(5ms));
  CHECK(q.next_due(0) == at(1s));
}

TEST_CASE("router: requests of a lost replica go first and may exceed the "
          "bound of the queue") {
  serving_policy policy;
  policy.queue = 2;
  auto q = filled(policy, 2);
  q.put_back(make_request(8, at(0s)));
  q.put_back(make_request(7, at(0s)));
  CHECK(keys_of(q.take(at(1s), up_to())) == keys{7, 8, 1, 2});
}

TEST_CASE("router: a batch has at most the rows of its replica") {
  auto q = filled({}, 5);
  CHECK(keys_of(q.take(at(0s), up_to(3))) == keys{1, 2, 3});
  CHECK(keys_of(q.take(at(0s), up_to(3))) == keys{4, 5});
  CHECK(q.take(at(0s), up_to(3)).empty());
}

TEST_CASE("router: a request with more rows than a batch is sent alone") {
  request_queue q{{}, 0};
  for (auto rows : {2, 9, 1}) {
    auto x = make_request(static_cast<uint64_t>(rows), at(0s),
                          static_cast<uint64_t>(rows));
    q.push(x);
  }
  CHECK(keys_of(q.take(at(0s), up_to(3))) == keys{2});
  CHECK(keys_of(q.take(at(0s), up_to(3))) == keys{9});
  CHECK(keys_of(q.take(at(0s), up_to(3))) == keys{1});
}

TEST_CASE("router: a request too large for a replica stays and later requests "
          "overtake it") {
  request_queue q{{}, 0};
  for (auto rows : {9, 2, 1}) {
    auto x = make_request(static_cast<uint64_t>(rows), at(0s),
                          static_cast<uint64_t>(rows));
    q.push(x);
  }
  CHECK(q.rows_min() == 1);
  CHECK(keys_of(q.take(at(0s), up_to(3, 3))) == keys{2, 1});
  CHECK(q.rows_min() == 9);
  CHECK(q.take(at(0s), up_to(3, 8)).empty());
  CHECK(q.take_larger(9).empty());
  CHECK(keys_of(q.take_larger(8)) == keys{9});
  CHECK(q.rows_min() == 0);
}

TEST_CASE("router: the expected time of a batch depends on its rows") {
  batch_times x;
  CHECK(x.expected(1) == 0us);
  for (int i = 0; i < 4; ++i)
    x.add(64, 640ms);
  CHECK(x.expected(1) == 640ms); // no other size was measured
  CHECK(x.expected(64) == 640ms);
  x.add(1, 10ms); // one measurement is enough
  CHECK(x.expected(1) < 100ms);
  batch_times line; // 20 ms, and 2 ms per row
  for (uint64_t rows : {1, 64, 8, 32})
    line.add(rows, 20ms + 2ms * static_cast<int64_t>(rows));
  for (uint64_t rows : {1, 16, 128})
    CHECK(
      std::abs(
        (line.expected(rows) - 20ms - 2ms * static_cast<int64_t>(rows)).count())
      <= 10);
  batch_times flat;
  for (uint64_t rows : {1, 64, 8, 32})
    flat.add(rows, 50ms);
  CHECK(std::abs((flat.expected(128) - 50ms).count()) <= 10);
  for (int i = 0; i < 60; ++i) // the replica became slower
    line.add(i % 2 == 0 ? 1 : 64, 200ms);
  CHECK(line.expected(1) > 190ms);
}

TEST_CASE("router: a batch fits into one message between nodes by bytes and by "
          "tensors") {
  request_queue q{{}, 0};
  auto large = [](uint64_t key, size_t mebibytes) {
    auto x = make_request(key, at(0s));
    x.inputs = {*tensor::zeros(dtype::u8, {1, int64_t(mebibytes) << 20})};
    return x;
  };
  for (uint64_t key : {1, 2, 3}) {
    auto x = large(key, 100);
    q.push(x);
  }
  auto huge = large(4, 300); // alone: its replica may be on this node
  q.push(huge);
  CHECK(keys_of(q.take(at(0s), up_to(1000))) == keys{1, 2});
  CHECK(keys_of(q.take(at(0s), up_to(1000))) == keys{3});
  CHECK(keys_of(q.take(at(0s), up_to(1000))) == keys{4});
  q.limit_share(100. / 256);
  for (uint64_t key : {5, 6}) {
    auto x = large(key, 60);
    q.push(x);
  }
  CHECK(keys_of(q.take(at(0s), up_to(1000))) == keys{5});
  CHECK(keys_of(q.take(at(0s), up_to(1000))) == keys{6});
  q.limit_share(1);
  request_queue many{{}, 0};
  for (uint64_t key = 1; key <= 3; ++key) {
    auto x = make_request(key, at(0s));
    x.inputs.resize(2000, x.inputs[0]);
    many.push(x);
  }
  CHECK(keys_of(many.take(at(0s), up_to(1000))) == keys{1, 2});
}

TEST_CASE("router: requests of different shapes do not share a batch") {
  request_queue q{{}, 0};
  auto a = make_request(1, at(0s));
  auto b = make_request(2, at(0s));
  b.inputs = {floats({1, 7})};
  q.push(a);
  q.push(b);
  CHECK(keys_of(q.take(at(0s), up_to())) == keys{1});
  CHECK(keys_of(q.take(at(0s), up_to())) == keys{2});
}

TEST_CASE("router: without a batch axis each request runs alone") {
  request_queue q{{}, -1};
  for (uint64_t i : {1, 2}) {
    auto x = make_request(i, at(0s));
    q.push(x);
  }
  CHECK(keys_of(q.take(at(0s), up_to())) == keys{1});
}

TEST_CASE(
  "router: the oldest request waits for others at most the batch delay") {
  serving_policy policy;
  policy.batch_delay = 10ms;
  auto q = filled(policy, 2);
  CHECK(q.take(at(9ms), up_to(3)).empty());
  CHECK(q.next_due(3) == at(10ms));
  CHECK(keys_of(q.take(at(10ms), up_to(3))) == keys{1, 2});
  q = filled(policy, 3);
  CHECK(keys_of(q.take(at(0ms), up_to(3))) == keys{1, 2, 3});
}

TEST_CASE("router: a request of higher priority does not extend the wait of "
          "others beyond the batch delay") {
  serving_policy policy;
  policy.batch_delay = 10ms;
  request_queue q{policy, 0};
  auto old = make_request(1, at(0s));
  auto urgent = make_request(2, at(0s), 1, 5);
  urgent.arrived = at(9ms);
  q.push(old);
  q.push(urgent);
  CHECK(q.take(at(9ms), up_to(8)).empty());
  CHECK(q.next_due(8) == at(10ms));
  CHECK(keys_of(q.take(at(10ms), up_to(8))) == keys{2, 1});
}

TEST_CASE(
  "router: a request marked to run alone is sent at once in its own batch") {
  serving_policy policy;
  policy.batch_delay = 1s;
  auto q = filled(policy, 2);
  for (uint64_t key : {8, 7}) {
    auto x = make_request(key, at(0s));
    x.alone = true;
    q.put_back(std::move(x));
  }
  CHECK(keys_of(q.take(at(0s), up_to())) == keys{7});
  CHECK(keys_of(q.take(at(0s), up_to())) == keys{8});
  CHECK(q.take(at(0s), up_to()).empty());
  CHECK(keys_of(q.take(at(1s), up_to())) == keys{1, 2});
}

TEST_CASE("router: a new policy also holds for waiting requests") {
  auto q = filled({}, 5);
  CHECK(keys_of(q.take(at(0s), up_to(2))) == keys{1, 2});
  serving_policy policy;
  policy.batch_delay = 10ms;
  q.adopt(policy);
  CHECK(q.take(at(9ms), up_to(9)).empty());
  CHECK(keys_of(q.take(at(10ms), up_to(9))) == keys{3, 4, 5});
}

TEST_CASE("router: higher priority goes first and equal priorities go in order "
          "of arrival") {
  request_queue q{{}, -1};
  for (auto [key, priority] : {std::pair{1, 0},
                               {2, 5},
                               {3, 5},
                               {4, std::numeric_limits<int>::min()}}) {
    auto x = make_request(static_cast<uint64_t>(key), at(0s), 1, priority);
    q.push(x);
  }
  keys order;
  while (q.size() > 0)
    order.push_back(q.take(at(0s), up_to())[0].key);
  CHECK(order == keys{2, 3, 1, 4});
}

TEST_CASE("router: the drop policy decides if a request that cannot meet its "
          "deadline is dropped") {
  serving_policy policy;
  auto run = [&] {
    request_queue q{policy, 0};
    auto a = make_request(1, at(0s), 1, 0, at(10ms));
    auto b = make_request(2, at(0s), 1, 0, at(50ms));
    q.push(a);
    q.push(b);
    return keys_of(q.take_late(at(0s), 20ms));
  };
  CHECK(run() == keys{1});
  policy.drop = drop_policy::never;
  CHECK(run().empty());
}

namespace {

std::vector<variant_view> digits_variants() {
  return {
    {"linear", 1, "digits", {"default"}, 0.94, 100us, true},
    {"small", 1, "digits", {}, 0.98, 300us, true},
    {"small", 2, "digits", {"default"}, 0.98, 200us, false},
    {"wide", 3, "digits", {"stable"}, 0.99, 2000us, true},
  };
}

selection_request asks(const std::string& model,
                       const std::string& version = "") {
  selection_request out;
  out.model = model;
  out.version = version;
  return out;
}

} // namespace

TEST_CASE(
  "gateway: a model is requested with a version or an alias or neither") {
  auto xs = digits_variants();
  CHECK(*choose_variant(xs, asks("small")) == 1); // the default is not ready
  xs[2].ready = true;
  CHECK(*choose_variant(xs, asks("small")) == 2);
  CHECK(*choose_variant(xs, asks("small", "1")) == 1);
  CHECK(*choose_variant(xs, asks("wide", "stable")) == 3);
  CHECK(*choose_variant(xs, asks("wide")) == 3);
  CHECK(choose_variant(xs, asks("wide", "7")).failure().text
        == "no version '7' of model 'wide'; there is 3");
  CHECK(choose_variant(xs, asks("big")).failure().text
        == "no model 'big'; there is linear, small, wide");
  CHECK(choose_variant(xs, selection_request{}).failure().code
        == ec::bad_request);
}

TEST_CASE("gateway: a request for an application goes to its quickest ready "
          "variant of sufficient accuracy") {
  auto xs = digits_variants();
  selection_request x;
  x.application = "digits";
  CHECK(*choose_variant(xs, x) == 0);
  x.accuracy = 0.97;
  CHECK(*choose_variant(xs, x) == 1);
  x.accuracy = 0.985;
  CHECK(*choose_variant(xs, x) == 3);
  x.latency = 1ms;
  CHECK(choose_variant(xs, x).failure().code == ec::unavailable);
  x.application = "letters";
  CHECK(choose_variant(xs, x).failure().code == ec::unknown_model);
}
