// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/kept_tier.hpp"

#include <algorithm>

namespace millrace {

namespace {

cache_book::worth worth_of(const model_info& x) {
  return {x.bytes, seconds_to_get(x.bytes)};
}

} // namespace

std::vector<std::string> kept_tier::adopt(std::vector<kept_bundle> xs,
                                          timestamp now) {
  adopted_ = true;
  std::sort(xs.begin(), xs.end(),
            [](auto& x, auto& y) { return x.idle > y.idle; });
  std::vector<std::string> out;
  for (auto& [info, idle] : xs) {
    auto gone = book_.take(info.content, worth_of(info), now);
    if (!gone) {
      out.push_back(info.content);
      continue;
    }
    for (auto& content : *gone)
      kept_.erase(content);
    out.insert(out.end(), gone->begin(), gone->end());
    book_.release(info.content, now - idle);
    kept_[info.content] = info;
  }
  return out;
}

result<std::vector<std::string>> kept_tier::begin(const model_info& x,
                                                  timestamp now) {
  if (book_.has(x.content))
    return error{ec::conflict, x.content + " is kept already", {}};
  auto gone = book_.take(x.content, worth_of(x), now);
  if (!gone)
    return gone;
  for (auto& content : *gone)
    kept_.erase(content);
  writing_[x.content] = x;
  return gone;
}

void kept_tier::end(const std::string& content, bool written, timestamp now) {
  auto x = writing_.extract(content);
  if (x.empty())
    return;
  book_.release(content, now);
  if (written)
    kept_.insert(std::move(x));
  else
    book_.drop(content);
}

void kept_tier::drop(const std::string& content) {
  kept_.erase(content);
  book_.drop(content);
}

} // namespace millrace
