// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/cache_book.hpp"

#include <algorithm>

#include "runtime/units.hpp"

namespace millrace {

cache_book::lease::lease(std::string content, std::shared_ptr<entry> of,
                         clock now)
  : content_(std::move(content)),
    of_(std::move(of)),
    now_(std::move(now)) {
  ++of_->users;
  of_->used = now_();
}

cache_book::lease& cache_book::lease::operator=(lease&& other) noexcept {
  std::swap(content_, other.content_);
  std::swap(of_, other.of_);
  std::swap(now_, other.now_);
  return *this;
}

cache_book::lease::~lease() {
  if (!of_) // moved from
    return;
  --of_->users;
  of_->used = now_();
}

std::vector<std::string> cache_book::choose(uint64_t bytes) const {
  auto now = now_();
  std::vector<eviction_candidate> all;
  for (auto& [content, x] : entries_)
    if (x->may_go())
      all.push_back(
        {content, x->is.bytes, x->is.seconds, to_seconds(now - x->used)});
  return choose_victims(std::move(all), bytes, by_);
}

result<cache_book::taken> cache_book::take(const std::string& content,
                                           const worth& value) {
  if (auto there = use(content))
    return taken{std::move(*there), {}};
  auto gone = make_room(value.bytes);
  if (!gone)
    return gone.failure();
  adopt(content, value);
  return taken{*use(content), std::move(*gone)};
}

std::optional<cache_book::lease> cache_book::use(const std::string& content) {
  auto i = entries_.find(content);
  if (i == entries_.end())
    return std::nullopt;
  return lease{content, i->second, now_};
}

void cache_book::adopt(const std::string& content, const worth& value,
                       nanoseconds idle) {
  auto [i, fresh] = entries_.try_emplace(content);
  if (!fresh)
    return;
  i->second = std::make_shared<entry>(entry{value, now_() - idle});
  held_ += value.bytes;
}

result<std::vector<std::string>> cache_book::make_room(uint64_t bytes) {
  if (fits(bytes))
    return std::vector<std::string>{};
  if (bytes > capacity_)
    return error{ec::overloaded, "no room for " + format_bytes(bytes)
                                   + ": there may be " + format_bytes(capacity_)
                                   + " in all"};
  auto out = choose(held_ + bytes - capacity_);
  if (out.empty())
    return error{ec::overloaded,
                 "no room for " + format_bytes(bytes) + ": "
                   + format_bytes(held_) + " of " + format_bytes(capacity_)
                   + " are taken, and too little can be evicted"};
  for (auto& gone : out)
    drop(gone);
  return out;
}

result<std::vector<std::string>> cache_book::grow(const std::string& content,
                                                  uint64_t bytes) {
  auto i = entries_.find(content);
  if (i == entries_.end() || bytes <= i->second->is.bytes)
    return std::vector<std::string>{};
  auto more = bytes - i->second->is.bytes;
  auto in_use = use(content); // so that it is not evicted itself
  auto gone = make_room(more);
  if (!gone)
    return gone;
  i->second->is.bytes = bytes;
  held_ += more;
  return gone;
}

void cache_book::keep_last(const std::set<std::string>& contents) {
  for (auto& [content, x] : entries_)
    x->is.last_copy = contents.contains(content);
}

void cache_book::drop(const std::string& content) {
  auto gone = entries_.extract(content);
  if (!gone.empty())
    held_ -= gone.mapped()->is.bytes;
}

std::vector<std::string> cache_book::shrink_to(uint64_t bytes) {
  if (held_ <= bytes)
    return {};
  uint64_t may = 0;
  for (auto& [content, x] : entries_)
    may += x->may_go() ? x->is.bytes : 0;
  auto out = choose(std::min(held_ - bytes, may));
  for (auto& content : out)
    drop(content);
  return out;
}

std::vector<held_bundle> cache_book::list() const {
  std::vector<held_bundle> out;
  for (auto& [content, x] : entries_)
    out.push_back({content, x->is.bytes, x->users > 0, x->is.last_copy});
  return out;
}

bool cache_book::is_last(const std::string& content) const {
  auto i = entries_.find(content);
  return i != entries_.end() && i->second->is.last_copy;
}

uint64_t cache_book::users_of(const std::string& content) const {
  auto i = entries_.find(content);
  return i == entries_.end() ? 0 : i->second->users;
}

} // namespace millrace
