// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/disk_cache.hpp"

namespace millrace {

namespace {

cache_book::worth worth_of(const model_info& x) {
  return {x.bytes, seconds_to_get(x.bytes)};
}

} // namespace

std::vector<std::string> disk_cache::adopt(const std::vector<disk_bundle>& xs) {
  adopted_ = true;
  for (auto& [info, idle] : xs) {
    book_.adopt(info.content, worth_of(info), idle);
    kept_[info.content] = info;
  }
  if (book_.capacity() == 0)
    return {};
  auto gone = book_.shrink_to(book_.capacity());
  for (auto& content : gone)
    kept_.erase(content);
  return gone;
}

result<std::vector<std::string>> disk_cache::begin(const model_info& model) {
  if (book_.has(model.content))
    return error{ec::conflict, model.content + " is kept already", {}};
  auto room = book_.take(model.content, worth_of(model));
  if (!room)
    return room.failure();
  for (auto& content : room->gone)
    kept_.erase(content);
  writing_.emplace(model.content, writing{model, std::move(room->in_use)});
  return std::move(room->gone);
}

void disk_cache::end(const std::string& content, bool written) {
  auto x = writing_.extract(content);
  if (x.empty())
    return;
  if (written)
    kept_[content] = std::move(x.mapped().info);
  else
    book_.drop(content);
}

void disk_cache::drop(const std::string& content) {
  kept_.erase(content);
  book_.drop(content);
}

} // namespace millrace
