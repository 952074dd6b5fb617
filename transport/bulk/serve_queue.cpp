// SPDX-License-Identifier: Apache-2.0
#include "transport/bulk/serve_queue.hpp"

#include <algorithm>

namespace millrace {

bool serve_queue::ask(const std::string& link, chunk_id chunk,
                      transfer_rank rank, bool there) {
  auto& state = links_[link];
  if (state.owed >= limits_.each)
    return false;
  ++state.owed;
  place at{rank, ++last_};
  if (there)
    ready_.emplace(at, gift{link, std::move(chunk)});
  else
    held_[std::move(chunk)].emplace_back(at, link);
  return true;
}

void serve_queue::there(const chunk_id& chunk) {
  auto found = held_.extract(chunk);
  if (found.empty())
    return;
  for (auto& [at, link] : found.mapped())
    ready_.emplace(at, gift{std::move(link), chunk});
}

std::set<std::string> serve_queue::withdraw(const std::string& content) {
  std::set<std::string> out;
  auto note = [&](const std::string& link) {
    --links_.at(link).owed;
    out.insert(link);
  };
  std::erase_if(ready_, [&](auto& x) {
    auto& [link, what] = x.second;
    if (what.content != content)
      return false;
    note(link);
    return true;
  });
  std::erase_if(held_, [&](auto& x) {
    if (x.first.content != content)
      return false;
    for (auto& [at, link] : x.second)
      note(link);
    return true;
  });
  return out;
}

void serve_queue::forget(const std::string& link) {
  std::erase_if(ready_, [&](auto& x) { return x.second.link == link; });
  for (auto& [what, asked] : held_)
    std::erase_if(asked, [&](auto& x) { return x.second == link; });
  std::erase_if(held_, [](auto& x) { return x.second.empty(); });
  links_.erase(link);
}

std::optional<serve_queue::gift> serve_queue::next(timestamp now,
                                                   uint64_t bytes_each) {
  limited_until_ = far_future;
  auto i = std::find_if(ready_.begin(), ready_.end(), [&](auto& x) {
    return links_.at(x.second.link).on_its_way < limits_.at_once;
  });
  if (i == ready_.end())
    return std::nullopt;
  if (limits_.per_second > 0) {
    if (paid_at_ > now) {
      limited_until_ = paid_at_;
      return std::nullopt;
    }
    auto price = std::chrono::duration<double>(static_cast<double>(bytes_each)
                                               / limits_.per_second);
    // A delay shorter than the time of one chunk does not reduce the rate.
    auto price_ns = std::chrono::ceil<nanoseconds>(price);
    paid_at_ = std::max(paid_at_, now - price_ns) + price_ns;
  }
  auto out = std::move(i->second);
  ready_.erase(i);
  auto& state = links_.at(out.link);
  --state.owed;
  ++state.on_its_way;
  return out;
}

void serve_queue::left(const std::string& link) {
  if (auto i = links_.find(link); i != links_.end() && i->second.on_its_way > 0)
    --i->second.on_its_way;
}

} // namespace millrace
