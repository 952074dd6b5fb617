// SPDX-License-Identifier: Apache-2.0
#include "actors/router/request_queue.hpp"

#include <algorithm>
#include <utility>

namespace millrace {

void request_queue::insert(position at, queued_request request) {
  rows_ += request.rows;
  if (request.rows > 1) {
    ++larger_[request.rows];
    ++larger_count_;
  }
  index_[request.key] = at;
  if (policy_.drop == drop_policy::late)
    deadlines_.push(request.due.at, request.key);
  if (policy_.batch_delay > microseconds{0})
    ripe_at_.push(request.alone ? request.arrived
                                : request.arrived + policy_.batch_delay,
                  request.key);
  order_.emplace(at, std::move(request));
}

queued_request request_queue::extract(order::iterator i) {
  auto x = std::move(i->second);
  order_.erase(i);
  index_.erase(x.key);
  rows_ -= x.rows;
  if (auto size = larger_.find(x.rows); size != larger_.end()) {
    --larger_count_;
    if (--size->second == 0)
      larger_.erase(size);
  }
  auto is_here = [this](uint64_t key) { return index_.contains(key); };
  deadlines_.sweep(order_.size(), is_here);
  ripe_at_.sweep(order_.size(), is_here);
  return x;
}

bool request_queue::push(queued_request& request) {
  if (order_.size() >= policy_.queue)
    return false;
  insert({-int64_t{request.priority}, next_++}, std::move(request));
  return true;
}

void request_queue::put_back(queued_request request) {
  insert({-int64_t{request.priority}, next_back_--}, std::move(request));
}

void request_queue::put_behind(queued_request request) {
  insert({-int64_t{request.priority}, next_++}, std::move(request));
}

void request_queue::adopt(const serving_policy& policy) {
  policy_ = policy;
  deadlines_ = {};
  ripe_at_ = {};
  rows_ = 0;
  larger_.clear();
  larger_count_ = 0;
  for (auto& [at, x] : std::exchange(order_, {}))
    insert(at, std::move(x));
}

uint64_t request_queue::rows_min() const {
  if (larger_count_ < order_.size())
    return 1;
  return larger_.empty() ? 0 : larger_.begin()->first;
}

bool request_queue::ripe(timestamp now, uint64_t batch_rows) {
  if (rows_ >= batch_rows || policy_.batch_delay <= microseconds{0})
    return true;
  std::vector<uint64_t> waited;
  ripe_at_.take_due(now, [&](uint64_t key) {
    if (index_.contains(key))
      waited.push_back(key);
  });
  for (auto key : waited) // the batch may leave without this request
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
                                                const batch_limit& limit) {
  auto most_share = std::min(limit.share, most_share_);
  std::vector<queued_request> out;
  if (order_.empty() || rows_min() > limit.rows_max || !ripe(now, limit.rows))
    return out;
  uint64_t rows = 0;
  batch_extent all;
  for (auto next = order_.begin(); next != order_.end();) {
    auto at = next++;
    auto& x = at->second;
    if (x.rows > limit.rows_max)
      continue;
    all.add(x.extent());
    if (!out.empty()
        && (rows + x.rows > limit.rows || x.alone || out.front().alone
            || all.share_of_message() > most_share
            || !mergeable(out.front().inputs, x.inputs, batch_axis_)))
      break;
    rows += x.rows;
    out.push_back(extract(at));
  }
  return out;
}

std::vector<queued_request> request_queue::take_larger(uint64_t rows) {
  std::vector<queued_request> out;
  if (larger_.empty() || larger_.rbegin()->first <= rows)
    return out;
  for (auto next = order_.begin(); next != order_.end();)
    if (auto at = next++; at->second.rows > rows)
      out.push_back(extract(at));
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

timestamp request_queue::next_due(uint64_t batch_rows) const {
  if (order_.empty())
    return far_future;
  auto due = deadlines_.next_due();
  return rows_ < batch_rows ? std::min(due, ripe_at_.next_due()) : due;
}

timestamp request_queue::oldest() const {
  auto out = far_future;
  for (auto& [at, x] : order_)
    out = std::min(out, x.arrived);
  return out;
}

microseconds request_queue::time_to_drain(microseconds per_batch,
                                          uint64_t batch_rows) const {
  auto batches = rows_ / std::max<uint64_t>(1, batch_rows) + 1;
  return std::max(microseconds{1000},
                  per_batch * static_cast<int64_t>(batches) / 2);
}

} // namespace millrace
