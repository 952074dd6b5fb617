// SPDX-License-Identifier: Apache-2.0
#include "models/confined/node_lane.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "runtime/units.hpp"

namespace millrace::confined {

namespace {

/// Lower limit of the bytes of a new arena.
constexpr size_t smallest_arena = 64 << 10;

/// Outputs below this size are copied rather than left in their arena.
constexpr size_t worth_an_arena = 32 << 10;

/// An arena stays with its outputs up to this fraction of process memory.
constexpr size_t largest_share = 64;

} // namespace

result<void> node_lane::widen(size_t bytes) const {
  if (bytes > largest_arena)
    return error{ec::too_large,
                 "inputs or outputs of " + format_bytes(bytes)
                   + " at once (at most " + format_bytes(largest_arena)
                   + " between a node and a sandboxed process)",
                 {}};
  auto made = arena::make(std::max(smallest_arena, std::bit_ceil(bytes)));
  if (!made)
    return made.failure();
  memory() = std::move(*made);
  return {};
}

bool node_lane::send(const lane_order& order) const {
  std::vector<int> files;
  if (order.room != 0)
    files.push_back(memory().file().get());
  return send_record(connection, order, files);
}

result<tensor_list> node_lane::take_out(size_t count, bool usable,
                                        byte_count process) {
  auto seen = memory().view(count);
  if (!seen)
    return seen;
  auto stays = usable && bytes_of(*seen) >= worth_an_arena
               && memory().size() <= process.value / largest_share;
  auto next = stays ? arenas.take() : nullptr;
  if (next == nullptr) {
    auto out = memory().copy(count);
    if (!usable)
      memory() = arena{};
    return out;
  }
  for (auto& x : *seen)
    x.data = shared_bytes{x.data.view(), slot};
  slot = std::move(next);
  return seen;
}

} // namespace millrace::confined
