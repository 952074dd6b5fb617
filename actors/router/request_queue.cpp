// SPDX-License-Identifier: Apache-2.0
#include "actors/router/request_queue.hpp"

#include <algorithm>
#include <utility>

namespace millrace {

void request_queue::insert(position at, queued_request x) {
  rows_ += x.rows;
  index_[x.key] = at;
  if (policy_.drop == drop_policy::late)
    deadlines_.push(x.due.at, x.key);
  if (policy_.batch_delay > microseconds{0})
    ripe_at_.push(x.alone ? x.arrived : x.arrived + policy_.batch_delay, x.key);
  order_.emplace(at, std::move(x));
}

queued_request request_queue::extract(order::iterator i) {
  auto x = std::move(i->second);
  order_.erase(i);
  index_.erase(x.key);
  rows_ -= x.rows;
  auto is_here = [this](uint64_t key) { return index_.contains(key); };
  deadlines_.sweep(order_.size(), is_here);
  ripe_at_.sweep(order_.size(), is_here);
  return x;
}

bool request_queue::push(queued_request& x) {
  if (order_.size() >= policy_.queue)
    return false;
  insert({-int64_t{x.priority}, next_++}, std::move(x));
  return true;
}

void request_queue::put_back(queued_request x) {
  insert({-int64_t{x.priority}, next_back_--}, std::move(x));
}

void request_queue::put_behind(queued_request x) {
  insert({-int64_t{x.priority}, next_++}, std::move(x));
}

void request_queue::adopt(const serving_policy& policy) {
  policy_ = policy;
  deadlines_ = {};
  ripe_at_ = {};
  rows_ = 0;
  for (auto& [at, x] : std::exchange(order_, {}))
    insert(at, std::move(x));
}

bool request_queue::ripe(timestamp now) {
  if (rows_ >= policy_.batch || policy_.batch_delay <= microseconds{0})
    return true;
  std::vector<uint64_t> waited;
  ripe_at_.take_due(now, [&](uint64_t key) {
    if (index_.contains(key))
      waited.push_back(key);
  });
  for (auto key : waited) // the batch may go without it
    ripe_at_.push(now, key);
  return !waited.empty();
}

std::optional<queued_request> request_queue::take_out(uint64_t key) {
  auto i = index_.find(key);
  if (i == index_.end())
    return std::nullopt;
  return extract(order_.find(i->second));
}

const queued_request* request_queue::find(uint64_t key) const {
  auto i = index_.find(key);
  return i == index_.end() ? nullptr : &order_.at(i->second);
}

std::vector<queued_request> request_queue::take(timestamp now,
                                                double most_share) {
  most_share = std::min(most_share, most_share_);
  std::vector<queued_request> out;
  if (order_.empty() || !ripe(now))
    return out;
  uint64_t rows = 0;
  batch_extent all;
  while (!order_.empty()) {
    auto next = order_.begin();
    auto& x = next->second;
    all.add(x.extent());
    if (!out.empty()
        && (rows + x.rows > policy_.batch || x.alone || out.front().alone
            || all.share_of_message() > most_share
            || !mergeable(out.front().inputs, x.inputs, batch_axis_)))
      break;
    rows += x.rows;
    out.push_back(extract(next));
  }
  return out;
}

std::vector<queued_request> request_queue::take_late(timestamp now,
                                                     microseconds expected) {
  std::vector<queued_request> out;
  deadlines_.take_due(now + expected, [&](uint64_t key) {
    if (auto x = take_out(key))
      out.push_back(std::move(*x));
  });
  return out;
}

std::vector<queued_request> request_queue::take_all() {
  std::vector<queued_request> out;
  while (!order_.empty())
    out.push_back(extract(order_.begin()));
  return out;
}

timestamp request_queue::next_due(bool able) const {
  if (order_.empty())
    return far_future;
  auto due = deadlines_.next_due();
  return able && rows_ < policy_.batch ? std::min(due, ripe_at_.next_due())
                                       : due;
}

timestamp request_queue::oldest() const {
  auto out = far_future;
  for (auto& [at, x] : order_)
    out = std::min(out, x.arrived);
  return out;
}

microseconds request_queue::time_to_drain(microseconds per_batch) const {
  auto batches = rows_ / std::max<uint64_t>(1, policy_.batch) + 1;
  return std::max(microseconds{1000},
                  per_batch * static_cast<int64_t>(batches) / 2);
}

} // namespace millrace
