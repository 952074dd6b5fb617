// SPDX-License-Identifier: Apache-2.0
#include "transport/bulk/pull_queue.hpp"

#include <algorithm>

namespace millrace {

void pull_queue::want(chunk_range range) {
  MILLRACE_ASSERT(range.first <= range.last && range.last <= chunks_.size());
  for (auto i = range.first; i < range.last; ++i)
    if (auto& chunk = chunks_[i]; chunk.is == state::unwanted) {
      chunk = {state::wanted, ++last_turn_};
      wanted_.emplace(chunk.turn, i);
      ++missing_;
    }
}

void pull_queue::have(size_t chunk) {
  auto& x = chunks_.at(chunk);
  missing_ -= x.is == state::wanted || x.is == state::asked;
  wanted_.erase(x.turn);
  x.is = state::there;
}

void pull_queue::add(source_id id, terms how) {
  auto& source = sources_[id];
  source.how = std::move(how);
  source.next_turn = 0;
}

void pull_queue::remove(source_id id) {
  auto i = sources_.find(id);
  if (i == sources_.end())
    return;
  auto owed = std::move(i->second.owes);
  sources_.erase(i);
  for (auto chunk : owed)
    lack(chunk);
}

bool pull_queue::answered(source_id id, size_t chunk) {
  auto i = sources_.find(id);
  return i != sources_.end() && i->second.owes.erase(chunk) > 0;
}

void pull_queue::lack(size_t chunk) {
  auto& x = chunks_.at(chunk);
  if (x.is != state::asked)
    return;
  x.is = state::wanted;
  wanted_.emplace(x.turn, chunk);
  for (auto& [id, source] : sources_)
    source.next_turn = std::min(source.next_turn, x.turn);
}

bool pull_queue::may_have(const source& from, size_t chunk) {
  auto& only = from.how.only;
  return only.empty() || std::any_of(only.begin(), only.end(), [&](auto& y) {
           return y.first <= chunk && chunk < y.last;
         });
}

std::optional<size_t> pull_queue::take(source& from) {
  auto i = wanted_.lower_bound(from.next_turn);
  while (i != wanted_.end() && !may_have(from, i->second))
    ++i;
  from.next_turn = i == wanted_.end() ? last_turn_ + 1 : i->first;
  if (i == wanted_.end())
    return std::nullopt;
  auto chunk = i->second;
  wanted_.erase(i);
  chunks_[chunk].is = state::asked;
  from.owes.insert(chunk);
  return chunk;
}

std::vector<pull_queue::ask> pull_queue::next() {
  std::vector<ask> out;
  // One chunk per source and round: a short file is spread over all sources.
  for (auto more = true; more;) {
    more = false;
    for (auto& [id, source] : sources_) {
      if (source.owes.size() >= source.how.window)
        continue;
      if (auto chunk = take(source)) {
        out.push_back({id, *chunk});
        more = true;
      }
    }
  }
  return out;
}

size_t pull_queue::owed_by(source_id id) const {
  auto i = sources_.find(id);
  return i == sources_.end() ? 0 : i->second.owes.size();
}

} // namespace millrace
