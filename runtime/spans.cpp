// SPDX-License-Identifier: Apache-2.0
#include "runtime/spans.hpp"

#include <algorithm>

namespace millrace {

void span_recorder::start(size_t most) {
  std::lock_guard guard{mutex_};
  spans_.clear();
  most_ = most;
  lost_ = 0;
  on_ = true;
}

void span_recorder::forget() {
  std::lock_guard guard{mutex_};
  on_ = false;
  spans_ = {};
}

void span_recorder::add(const char* role, const std::string& who,
                        std::string name, timestamp from, timestamp to,
                        uint64_t request, uint64_t batch, std::string note) {
  std::lock_guard guard{mutex_};
  if (spans_.size() >= most_) {
    ++lost_;
    return;
  }
  spans_.push_back({role + who, std::move(name), to_us(from.time_since_epoch()),
                    to_us(to - from), request, batch, std::move(note)});
}

std::vector<span> span_recorder::kept(size_t first, size_t most) const {
  std::lock_guard guard{mutex_};
  first = std::min(first, spans_.size());
  auto last = std::min(spans_.size(), first + most);
  auto at = [&](size_t i) {
    return spans_.begin() + static_cast<std::ptrdiff_t>(i);
  };
  return {at(first), at(last)};
}

size_t span_recorder::size() const {
  std::lock_guard guard{mutex_};
  return spans_.size();
}

size_t span_recorder::lost() const {
  std::lock_guard guard{mutex_};
  return lost_;
}

} // namespace millrace
