// SPDX-License-Identifier: Apache-2.0
#include "actors/gateway/notable_requests.hpp"

#include <algorithm>

#include "runtime/text.hpp"

namespace millrace {

void notable_requests::turn(timestamp now) {
  if (now < turned_ + window)
    return;
  slow_before_ =
    now < turned_ + 2 * window ? std::move(slow_) : std::vector<entry>{};
  slow_.clear();
  turned_ = now;
}

bool notable_requests::is_slow(microseconds total, timestamp now) {
  turn(now);
  return slow_.size() < slow_most || total > slow_.front().story.total;
}

void notable_requests::keep(request_story story, timestamp arrived,
                            timestamp now) {
  auto add = [&](std::deque<entry>& to, size_t most) {
    to.push_back({arrived, std::move(story)});
    if (to.size() > most)
      to.pop_front();
  };
  if (!story.trace.empty())
    return add(named_, named_most);
  if (story.status != ec::ok || !story.vain.empty())
    return add(troubled_, troubled_most);
  turn(now);
  // The fastest request is in front.
  auto slower = std::upper_bound(
    slow_.begin(), slow_.end(), story.total,
    [](microseconds total, auto& y) { return total < y.story.total; });
  slow_.insert(slower, {arrived, std::move(story)});
  if (slow_.size() > slow_most)
    slow_.erase(slow_.begin());
}

request_story* notable_requests::find(uint64_t number) {
  for (auto* among : {&troubled_, &named_}) {
    auto i = std::find_if(among->rbegin(), among->rend(),
                          [&](auto& x) { return x.story.number == number; });
    if (i != among->rend())
      return &i->story;
  }
  return nullptr;
}

bool is_meant(const std::string& which, const std::string& trace,
              uint64_t number) {
  return trace == which || number_in<uint64_t>(which) == number;
}

std::vector<request_story> notable_requests::find(const std::string& which,
                                                  timestamp now) const {
  std::vector<const entry*> found;
  auto look = [&](auto& in) {
    for (auto& x : in)
      if (which.empty() || is_meant(which, x.story.trace, x.story.number))
        found.push_back(&x);
  };
  look(troubled_);
  look(named_);
  look(slow_);
  look(slow_before_);
  std::stable_sort(found.begin(), found.end(),
                   [](auto* x, auto* y) { return x->arrived > y->arrived; });
  std::vector<request_story> out;
  for (auto* x : found) {
    out.push_back(x->story);
    out.back().ago = to_us(now - x->arrived);
  }
  return out;
}

} // namespace millrace
