// SPDX-License-Identifier: Apache-2.0
#include "models/backend/warm_up.hpp"

#include <algorithm>

#include "models/crossing.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// A pass of a whole model above this time costs more than the first calls.
constexpr nanoseconds longest_pass = 200ms;

bool is_over(const warm_up_options& how) {
  return how.is_over && how.is_over();
}

/// Repeats a pass until the first-call costs are paid. Returns the time of the
/// last pass.
result<nanoseconds> warm_up_rows(loaded_stage& x, const tensor_list& inputs,
                                 size_t rows, nanoseconds longest,
                                 const warm_up_options& how) {
  nanoseconds took{0};
  for (int pass = 0, passes = 2; pass < passes; ++pass) {
    if (pass > 0 && is_over(how))
      break;
    auto begin = how.now();
    run_limits limits;
    limits.of_nobody = true;
    if (how.limit > 0ns)
      limits.until = begin + how.limit;
    if (auto y = x.run(inputs, limits); !y)
      return y.failure();
    took = how.now() - begin;
    if (pass > 0 && how.tell)
      how.tell(rows, bytes_of(inputs), took);
    if (took < how.short_pass)
      passes = 8;
    else if (took > longest)
      break;
  }
  return took;
}

/// The number of rows within a time limit, by the time of one row.
size_t rows_within(nanoseconds longest, nanoseconds one, size_t most) {
  auto rows = longest / std::max(one, nanoseconds{1});
  return std::clamp<size_t>(static_cast<size_t>(rows), 1, most);
}

} // namespace

namespace {

result<void> warm_up_all(loaded_stage& x, const manifest& of,
                         const warm_up_options& how) {
  auto layers = static_cast<int64_t>(of.layers.size());
  auto longest =
    longest_pass * static_cast<int64_t>(how.last - how.first) / layers;
  auto run = [&](size_t rows) -> result<nanoseconds> {
    auto inputs = warm_up_inputs(of, how.first, rows);
    return inputs ? warm_up_rows(x, *inputs, rows, longest, how)
                  : inputs.failure();
  };
  auto one = run(1);
  if (!one)
    return one.failure();
  if (how.max_batch <= 1 || of.signature.batch_axis < 0 || is_over(how))
    return {};
  if (auto rows = rows_within(longest, *one, how.max_batch); rows > 1)
    if (auto many = run(rows); !many)
      return many.failure();
  return {};
}

} // namespace

result<void> warm_up(loaded_stage& stage, const manifest& of,
                     const warm_up_options& how) {
  auto done = warm_up_all(stage, of, how);
  if (done || done.failure().code != ec::internal)
    return done;
  if (how.failed)
    how.failed(done.failure());
  return {};
}

void log_warm_up_failed(const manifest& of, const std::string& device,
                        const std::string& why) {
  log_event(log_level::warning, "device", "warm_up_failed",
            {{"model", of.name},
             {"version", of.version},
             {"device", device},
             {"error", why}});
}

} // namespace millrace
