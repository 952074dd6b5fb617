// SPDX-License-Identifier: Apache-2.0
#include "models/device/batch_run.hpp"

#include <algorithm>
#include <new>

#include "models/batching.hpp"
#include "models/confined/run_end.hpp"

namespace millrace {

namespace {

/// How long after its deadline something is stopped: an answer that is ready by
/// then may still count for somebody.
constexpr nanoseconds overtime = 150ms;

/// When a run of it is stopped. A batch that takes far longer than its size
/// accounts for has some request that hangs: the others are to have time left.
run_limits limits_of(const batch_ground& on, const execution& x) {
  run_limits out{far_future, x.unwanted, on.pace.expected(bytes_of(x.items))};
  if (out.usual == 0ns)
    out.least = on.first_pass;
  if (x.until == far_future)
    return out;
  out.until = x.until + overtime;
  if (x.requests() == 1 || (out.usual == 0ns && out.least == 0ns))
    return out;
  auto begin = steady_now();
  auto left = std::min(x.soonest, x.until) - begin;
  auto longest = std::max({overtime, left / 2, confined::patience * out.usual});
  out.until = std::min(out.until, begin + longest);
  return out;
}

result<std::vector<tensor_list>> compute(const batch_ground& on,
                                         const execution& x, uint64_t& peak) {
  if (auto why = in_vain(x, steady_now()))
    return std::move(*why);
  if (x.items.empty())
    return error{ec::bad_request, "a batch of nothing"};
  auto inputs = gather(x.items, on.of.batch_axis);
  if (!inputs)
    return inputs.failure();
  auto outputs =
    on.stage.run(*inputs, limits_of(on, x), x.meters_memory ? &peak : nullptr);
  if (!outputs)
    return outputs.failure();
  if (x.requests() == 1 || !on.is_last)
    return std::vector<tensor_list>{std::move(*outputs)};
  auto rows = x.rows;
  if (rows.empty())
    for (auto& item : x.items)
      rows.push_back(static_cast<uint64_t>(
        item.front().extents[static_cast<size_t>(on.of.batch_axis)]));
  return scatter(*outputs, rows, on.of.batch_axis);
}

} // namespace

result<std::vector<tensor_list>> run_batch(const batch_ground& on,
                                           const execution& x, uint64_t& peak) {
  try {
    return compute(on, x, peak);
  } catch (const std::bad_alloc&) {
    return error{ec::overloaded, "no memory left"};
  }
}

size_t bytes_of(const std::vector<tensor_list>& items) {
  size_t n = 0;
  for (auto& xs : items)
    for (auto& x : xs)
      n += x.data.size();
  return n;
}

} // namespace millrace
