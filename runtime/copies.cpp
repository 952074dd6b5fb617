// SPDX-License-Identifier: Apache-2.0
#include "runtime/copies.hpp"

#include <atomic>
#include <cstring>

namespace millrace {

namespace {

std::atomic<uint64_t> copied{0};

} // namespace

void count_copied(uint64_t bytes) {
  copied.fetch_add(bytes, std::memory_order_relaxed);
}

void copy_counted(std::byte* to, const_bytes from) {
  if (from.empty())
    return;
  std::memcpy(to, from.data(), from.size());
  count_copied(from.size());
}

uint64_t bytes_copied() {
  return copied.load(std::memory_order_relaxed);
}

} // namespace millrace
