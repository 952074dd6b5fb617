// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <vector>

#include "actors/policies/dispatch/dispatcher.hpp"

using namespace millrace;

TEST_CASE("dispatch: pull takes the replica with the most credit") {
  auto d = make_dispatcher(dispatch_policy::pull, random_stream{1});
  CHECK_FALSE(d->next());
  for (uint64_t id = 1; id <= 3; ++id)
    d->set_credit(id, id == 3 ? 3 : 2);
  CHECK(d->next() == 3u);
  d->set_credit(3, 1);
  auto first = *d->next();
  CHECK(first != 3);
  d->set_credit(first, 1);
  auto second = *d->next();
  CHECK(second == 3 - first);
  d->set_credit(second, 0);
  d->set_credit(first, 0);
  CHECK(d->next() == 3u);
  d->set_credit(first, 2);
  d->set_credit(second, 2);
  d->remove(first);
  CHECK(d->next() == second);
  d->remove(second);
  d->remove(3);
  CHECK_FALSE(d->next());
}

TEST_CASE("dispatch: pull chooses at random among replicas of equal credit") {
  constexpr uint64_t replicas = 8, draws = 8000;
  std::vector<uint64_t> first(replicas), second(replicas);
  size_t same = 0;
  auto d = make_dispatcher(dispatch_policy::pull, random_stream{1});
  auto e = make_dispatcher(dispatch_policy::pull, random_stream{2});
  for (uint64_t id = 0; id < replicas; ++id)
    d->set_credit(id, 1), e->set_credit(id, 1);
  for (uint64_t i = 0; i < draws; ++i) {
    auto x = *d->next(), y = *e->next();
    CHECK(d->next() == x); // next() does not change the choice
    ++first[x], ++second[y];
    same += x == y;
    for (auto [it, id] : {std::pair{d.get(), x}, std::pair{e.get(), y}}) {
      it->set_credit(id, 0);
      it->set_credit(id, 1);
    }
  }
  // Each count is binomial with mean 1000 and deviation 30.
  for (auto n : {first, second})
    for (auto x : n)
      CHECK(std::abs(static_cast<double>(x) - 1000) < 150);
  CHECK(std::abs(static_cast<double>(same) - 1000) < 150);
}

TEST_CASE(
  "dispatch: round_robin takes replicas with credit one after the other") {
  auto d = make_dispatcher(dispatch_policy::round_robin, random_stream{1});
  for (uint64_t id = 1; id <= 3; ++id)
    d->set_credit(id, 5);
  std::vector<uint64_t> order;
  for (int i = 0; i < 5; ++i) {
    order.push_back(*d->next());
    CHECK(d->next() == order.back()); // next() does not change the choice
    d->given(order.back());
    if (i == 2)
      d->set_credit(1, 0);
  }
  CHECK(order == std::vector<uint64_t>{1, 2, 3, 2, 3});
}

TEST_CASE("IF-16: in_turn takes replicas one after the other and waits for one "
          "without credit") {
  auto d = make_dispatcher(dispatch_policy::in_turn, random_stream{1});
  CHECK(!d->next());
  for (uint64_t id = 1; id <= 3; ++id)
    d->set_credit(id, 5);
  for (uint64_t id : {1, 2, 3, 1}) {
    CHECK(d->next() == id);
    d->given(id);
  }
  d->set_credit(2, 0);
  CHECK(!d->next());
  d->set_credit(2, 1);
  CHECK(d->next() == 2);
  d->remove(2);
  CHECK(d->next() == 3);
}

TEST_CASE("dispatch: replicas share batches in proportion to their weights and "
          "gain no claim without credit") {
  auto d = make_weighted_dispatcher();
  std::map<uint64_t, double> weights{{1, 1}, {2, 2}, {3, 0.5}};
  for (auto& [id, weight] : weights) {
    d->set_weight(id, weight);
    d->set_credit(id, 4);
  }
  std::map<uint64_t, int> given;
  auto give = [&](int times) {
    for (int i = 0; i < times; ++i) {
      auto id = *d->next();
      d->given(id);
      ++given[id];
    }
  };
  give(350);
  CHECK(given == std::map<uint64_t, int>{{1, 100}, {2, 200}, {3, 50}});
  d->set_credit(2, 0);
  give(150);
  CHECK(given[1] == 200);
  given.clear();
  d->set_credit(2, 1);
  give(350);
  CHECK(std::abs(given[2] - 200) <= 2);
  d->remove(1);
  d->remove(2);
  CHECK(d->next() == 3u);
  d->set_credit(3, 0);
  CHECK_FALSE(d->next());
}
