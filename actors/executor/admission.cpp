// SPDX-License-Identifier: Apache-2.0
#include "actors/executor/admission.hpp"

#include "runtime/assert.hpp"

namespace millrace {

std::optional<uint64_t> admission::next() {
  if (waiting_.empty() || !takes_another())
    return std::nullopt;
  auto i = first_allowed();
  if (i == waiting_.end())
    return std::nullopt;
  auto out = i->second;
  waiting_.erase(i);
  ++held_;
  ++begun_;
  ++replicas_[out.instance].held;
  return out.id;
}

bool admission::takes_another() const {
  auto most = sharing_.most_at_once(lanes_);
  switch (sharing_.mode) {
  case sharing_mode::lanes:
    return held_ < per_lane * lanes_;
  case sharing_mode::wave:
    return begun_ < most || held_ == 0;
  case sharing_mode::time:
  case sharing_mode::space:
  case sharing_mode::cap:
    break;
  }
  return held_ < most;
}

uint32_t admission::places() const {
  auto most = sharing_.most_at_once(lanes_);
  if (sharing_.mode == sharing_mode::wave && begun_ >= most)
    return std::max(1u, held_);
  return most;
}

bool admission::is_full(uint64_t instance) const {
  auto i = replicas_.find(instance);
  if (i == replicas_.end() || !i->second.loaded)
    return false;
  auto& [loaded, limit, held] = i->second;
  return (limit != 0 && held >= limit)
         || (sharing_.per_replica != 0 && held >= sharing_.per_replica);
}

/// Linear in waiting batches. There are few, because routers give a replica at
/// most its credit.
admission::queue::iterator admission::first_allowed() {
  auto i = waiting_.begin();
  if (limited_ == 0 && sharing_.per_replica == 0)
    return i;
  while (i != waiting_.end() && is_full(i->second.instance))
    ++i;
  return i;
}

void admission::ended(uint64_t instance) {
  give_back(instance);
  if (held_ == 0 && waiting_.empty())
    begun_ = 0;
}

void admission::returned(uint64_t instance) {
  --begun_;
  ended(instance);
}

void admission::give_back(uint64_t instance) {
  auto i = replicas_.find(instance);
  MILLRACE_ASSERT(held_ > 0 && i != replicas_.end() && i->second.held > 0);
  --held_;
  if (--i->second.held == 0 && !i->second.loaded)
    replicas_.erase(i);
}

/// Batches on the device count as begun in the current wave.
void admission::set_sharing(const device_sharing& sharing) {
  sharing_ = sharing;
  begun_ = held_;
}

void admission::set_limit(uint64_t instance, uint32_t limit) {
  auto& room = replicas_[instance];
  limited_ += (limit != 0 ? 1u : 0u);
  limited_ -= (room.limit != 0 ? 1u : 0u);
  room.limit = limit;
  room.loaded = true;
}

void admission::forget(uint64_t instance) {
  auto i = replicas_.find(instance);
  if (i == replicas_.end())
    return;
  limited_ -= (i->second.limit != 0 ? 1u : 0u);
  i->second.limit = 0;
  i->second.loaded = false;
  if (i->second.held == 0)
    replicas_.erase(i);
}

} // namespace millrace
