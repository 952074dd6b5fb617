// SPDX-License-Identifier: Apache-2.0
#include "models/device/batch_run.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <span>

#include "models/batching.hpp"
#include "models/confined/run_end.hpp"

namespace millrace {

namespace {

/// Delay between a deadline and the stop of a run: an answer that is ready by
/// then may still be of use.
constexpr nanoseconds overtime = 150ms;

using requests = std::span<const tensor_list>;

size_t bytes_in(requests xs) {
  size_t n = 0;
  for (auto& x : xs)
    n += bytes_of(x);
  return n;
}

/// Time limits of a run of these requests. If a batch takes far longer than its
/// size explains, one of its requests probably hangs: then time must be left to
/// run the others.
run_limits limits_of(const batch_environment& on, const execution& x,
                     requests of) {
  run_limits out{far_future, x.unwanted, on.pace.expected(bytes_in(of))};
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

using all_outputs = std::vector<tensor_list>;

/// Runs these requests in one pass.
result<all_outputs> compute(const batch_environment& on, const execution& x,
                            requests of, uint64_t& peak) {
  if (auto why = in_vain(x, steady_now()))
    return std::move(*why);
  auto inputs = gather(of, on.of.batch_axis);
  if (!inputs)
    return inputs.failure();
  uint64_t taken = 0;
  auto outputs = on.stage.run(*inputs, limits_of(on, x, of),
                              x.meters_memory ? &taken : nullptr);
  peak = std::max(peak, taken);
  if (!outputs)
    return outputs.failure();
  if (on.is_last)
    if (auto right = check_outputs(on.of, *outputs); !right)
      return right.failure();
  if (std::max(of.size(), x.rows.size()) == 1 || !on.is_last)
    return all_outputs{std::move(*outputs)};
  auto rows = x.rows;
  if (rows.empty())
    for (auto& item : of)
      rows.push_back(static_cast<uint64_t>(
        item.front().extents[static_cast<size_t>(on.of.batch_axis)]));
  return scatter(*outputs, rows, on.of.batch_axis);
}

result<all_outputs> compute_if_memory(const batch_environment& on,
                                      const execution& x, requests of,
                                      uint64_t& peak) {
  try {
    return compute(on, x, of, peak);
  } catch (const std::bad_alloc&) {
    return error{ec::overloaded, "no memory left"};
  }
}

/// Runs these requests, in as many passes as memory requires.
result<all_outputs> compute_in_pieces(const batch_environment& on,
                                      const execution& x, requests of,
                                      uint64_t& peak) {
  auto bytes = bytes_in(of);
  auto can_be_cut = of.size() > 1 && on.is_last;
  if (!can_be_cut || on.fits.allows(bytes, steady_now())) {
    auto out = compute_if_memory(on, x, of, peak);
    if (out || out.failure().code != ec::overloaded || !can_be_cut)
      return out;
    on.fits.exceeded_by(bytes, steady_now());
  }
  auto half = of.size() / 2;
  auto out = compute_in_pieces(on, x, of.first(half), peak);
  if (!out)
    return out;
  auto rest = compute_in_pieces(on, x, of.subspan(half), peak);
  if (!rest)
    return rest;
  std::move(rest->begin(), rest->end(), std::back_inserter(*out));
  return out;
}

} // namespace

result<std::vector<tensor_list>> run_requests(const batch_environment& on,
                                              const execution& batch,
                                              uint64_t& peak) {
  if (batch.items.empty())
    return error{ec::bad_request, "a batch of nothing"};
  return compute_in_pieces(on, batch, batch.items, peak);
}

size_t bytes_of(const std::vector<tensor_list>& items) {
  return bytes_in(items);
}

} // namespace millrace
