// SPDX-License-Identifier: Apache-2.0
#include "transport/simulated/fabric.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace millrace {

namespace {

/// Seconds, a century: longer transfers end then.
constexpr double longest = 3.2e9;

/// Less than a byte: the rounding error left at the end of a flow.
constexpr double nothing = 1e-3;

} // namespace

link_number fabric::add_link(double bytes_per_second) {
  link x;
  x.capacity = bytes_per_second;
  links_.push_back(std::move(x));
  return static_cast<link_number>(links_.size() - 1);
}

void fabric::set_capacity(link_number link, double bytes_per_second,
                          timestamp now) {
  auto& y = links_[link];
  y.room = room(link, now);
  y.since = now;
  y.capacity = bytes_per_second;
  share({&link, 1}, now);
}

flow_number fabric::start(std::span<const link_number> path, double bytes,
                          timestamp now) {
  auto n = ++last_;
  auto& x = flows_[n];
  x.path.assign(path.begin(), path.end());
  x.left = bytes;
  x.since = now;
  for (auto l : path)
    links_[l].flows.push_back(n);
  if (path.empty())
    set_rate(n, x, std::numeric_limits<double>::infinity(), now);
  else
    share(path, now);
  return n;
}

void fabric::go_on(flow_number n, double bytes, timestamp now) {
  auto& x = flows_.at(n);
  x.left = bytes;
  x.since = now;
  schedule(n, x);
}

double fabric::stop(flow_number n, timestamp now) {
  auto i = flows_.find(n);
  if (i == flows_.end())
    return 0;
  auto left = i->second.left;
  if (std::isfinite(i->second.rate))
    left -= i->second.rate * to_seconds(now - i->second.since);
  auto path = std::move(i->second.path);
  endings_.erase({i->second.due, n});
  flows_.erase(i);
  for (auto l : path)
    std::erase(links_[l].flows, n);
  share(path, now);
  return std::max(0.0, left);
}

timestamp fabric::next_due() const {
  return endings_.empty() ? far_future : endings_.begin()->when;
}

std::vector<flow_number> fabric::take_ended(timestamp now) {
  std::vector<flow_number> out;
  while (next_due() <= now) {
    auto n = endings_.begin()->which;
    endings_.erase(endings_.begin());
    auto& x = flows_.at(n);
    x.left = 0;
    x.since = now;
    x.due = far_future;
    out.push_back(n);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Finds all links and flows that are connected with these links.
void fabric::collect(std::span<const link_number> from) {
  some_links_.clear();
  some_flows_.clear();
  auto visit = [this](link_number l) {
    if (std::exchange(links_[l].visited, true))
      return;
    links_[l].left = links_[l].capacity;
    links_[l].waiting = links_[l].flows.size();
    some_links_.push_back(l);
  };
  for (auto l : from)
    visit(l);
  for (size_t i = 0; i < some_links_.size(); ++i)
    for (auto n : links_[some_links_[i]].flows) {
      auto& x = flows_.at(n);
      if (std::exchange(x.visited, true))
        continue;
      x.settled = false;
      some_flows_.push_back(n);
      for (auto l : x.path)
        visit(l);
    }
}

/// Fills the tightest link first: its flows get equal shares, which are then
/// subtracted from their other links.
void fabric::share(std::span<const link_number> around, timestamp now) {
  collect(around);
  for (auto open = some_flows_.size(); open > 0;) {
    link* tightest = nullptr;
    for (auto l : some_links_) {
      auto& x = links_[l];
      if (x.waiting > 0
          && (tightest == nullptr
              || x.left * static_cast<double>(tightest->waiting)
                   < tightest->left * static_cast<double>(x.waiting)))
        tightest = &x;
    }
    auto part =
      std::max(0.0, tightest->left / static_cast<double>(tightest->waiting));
    for (auto n : tightest->flows) {
      auto& x = flows_.at(n);
      if (std::exchange(x.settled, true))
        continue;
      set_rate(n, x, part, now);
      for (auto l : x.path) {
        links_[l].left -= part;
        --links_[l].waiting;
      }
      --open;
    }
  }
  for (auto l : some_links_)
    links_[l].visited = false;
  for (auto n : some_flows_)
    flows_.at(n).visited = false;
}

void fabric::set_rate(flow_number n, flow& changed, double rate,
                      timestamp now) {
  if (rate == changed.rate && changed.due != far_future)
    return;
  if (std::isfinite(changed.rate))
    changed.left -= changed.rate * to_seconds(now - changed.since);
  changed.since = now;
  changed.rate = rate;
  schedule(n, changed);
}

void fabric::schedule(flow_number n, flow& changed) {
  if (changed.due != far_future)
    endings_.erase({changed.due, n});
  changed.due = far_future;
  if (changed.left <= nothing || std::isinf(changed.rate))
    changed.due = changed.since;
  else if (changed.rate > 0)
    changed.due =
      changed.since
      + std::chrono::ceil<nanoseconds>(std::chrono::duration<double>{
        std::min(changed.left / changed.rate, longest)});
  if (changed.due != far_future)
    endings_.insert({changed.due, n});
}

} // namespace millrace
