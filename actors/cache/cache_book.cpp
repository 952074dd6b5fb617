// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/cache_book.hpp"

#include <algorithm>
#include <tuple>

#include "runtime/units.hpp"

namespace millrace {

/// What it costs to have evicted it: less for what is large, and for what has
/// not been used for long.
double cache_book::price(const entry& x, timestamp now) const {
  auto idle = std::max(1e-3, to_seconds(now - x.used));
  if (by_ == eviction::lru)
    return 1 / idle;
  auto bytes = static_cast<double>(std::max<uint64_t>(1, x.is.bytes));
  return x.is.seconds / bytes / idle;
}

std::vector<std::string> cache_book::choose(uint64_t bytes,
                                            timestamp now) const {
  using candidate = std::tuple<bool, double, std::string>;
  std::vector<candidate> all;
  for (auto& [content, x] : entries_)
    if (may_go(x))
      all.emplace_back(x.is.loaded, price(x, now), content);
  std::sort(all.begin(), all.end());
  std::vector<std::string> out;
  uint64_t freed = 0;
  for (auto& [loaded, price, content] : all) {
    if (freed >= bytes)
      break;
    freed += entries_.at(content).is.bytes;
    out.push_back(content);
  }
  if (freed < bytes)
    return {};
  // What came before the last may not be needed any more beside that.
  for (auto i = out.begin(); i != out.end();) {
    auto its = entries_.at(*i).is.bytes;
    if (freed - its >= bytes) {
      freed -= its;
      i = out.erase(i);
    } else {
      ++i;
    }
  }
  return out;
}

result<std::vector<std::string>>
cache_book::take(const std::string& content, const worth& x, timestamp now) {
  if (auto i = entries_.find(content); i != entries_.end()) {
    ++i->second.users;
    i->second.used = now;
    return std::vector<std::string>{};
  }
  auto gone = make_room(x.bytes, now);
  if (!gone)
    return gone;
  entries_[content] = {x, 1, now};
  held_ += x.bytes;
  return gone;
}

void cache_book::adopt(const std::string& content, const worth& x,
                       timestamp now) {
  if (entries_.try_emplace(content, entry{x, 0, now}).second)
    held_ += x.bytes;
}

result<std::vector<std::string>> cache_book::make_room(uint64_t bytes,
                                                       timestamp now) {
  if (fits(bytes))
    return std::vector<std::string>{};
  std::vector<std::string> out;
  if (bytes <= capacity_)
    out = choose(held_ + bytes - capacity_, now);
  if (out.empty())
    return error{ec::overloaded, "no room for " + format_bytes(bytes) + ": "
                                   + format_bytes(held_) + " of "
                                   + format_bytes(capacity_)
                                   + " are taken, and too little of it may go"};
  for (auto& gone : out)
    drop(gone);
  return out;
}

result<std::vector<std::string>>
cache_book::grow(const std::string& content, uint64_t bytes, timestamp now) {
  auto i = entries_.find(content);
  if (i == entries_.end() || bytes <= i->second.is.bytes)
    return std::vector<std::string>{};
  auto& x = i->second;
  auto more = bytes - x.is.bytes;
  ++x.users; // it is not what goes
  auto gone = make_room(more, now);
  --x.users;
  if (!gone)
    return gone;
  x.is.bytes = bytes;
  held_ += more;
  return gone;
}

void cache_book::release(const std::string& content, timestamp now) {
  auto i = entries_.find(content);
  if (i == entries_.end() || i->second.users == 0)
    return;
  --i->second.users;
  i->second.used = now;
}

void cache_book::keep_last(const std::set<std::string>& contents) {
  for (auto& [content, x] : entries_)
    x.is.last_copy = contents.contains(content);
}

void cache_book::drop(const std::string& content) {
  auto gone = entries_.extract(content);
  if (!gone.empty())
    held_ -= gone.mapped().is.bytes;
}

std::vector<std::string> cache_book::shrink_to(uint64_t bytes, timestamp now) {
  if (held_ <= bytes)
    return {};
  uint64_t may = 0;
  for (auto& [content, x] : entries_)
    may += may_go(x) ? x.is.bytes : 0;
  auto out = choose(std::min(held_ - bytes, may), now);
  for (auto& content : out)
    drop(content);
  return out;
}

std::vector<held_bundle> cache_book::list() const {
  std::vector<held_bundle> out;
  for (auto& [content, x] : entries_)
    out.push_back({content, x.is.bytes, x.users > 0, x.is.last_copy});
  return out;
}

bool cache_book::is_last(const std::string& content) const {
  auto i = entries_.find(content);
  return i != entries_.end() && i->second.is.last_copy;
}

uint64_t cache_book::users_of(const std::string& content) const {
  auto i = entries_.find(content);
  return i == entries_.end() ? 0 : i->second.users;
}

} // namespace millrace
