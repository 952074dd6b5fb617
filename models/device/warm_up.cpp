// SPDX-License-Identifier: Apache-2.0
#include "models/device/warm_up.hpp"

#include "models/crossing.hpp"

namespace millrace {

namespace {

result<void> warm_up_rows(loaded_stage& x, const tensor_list& inputs,
                          size_t rows, nanoseconds short_pass,
                          const timed_pass& tell) {
  for (int pass = 0, passes = 2; pass < passes; ++pass) {
    auto begin = std::chrono::steady_clock::now();
    if (auto y = x.run(inputs); !y)
      return y.failure();
    auto took = std::chrono::steady_clock::now() - begin;
    if (pass > 0)
      tell(rows, bytes_of(inputs), took);
    if (took < short_pass)
      passes = 8;
  }
  return {};
}

} // namespace

result<void> warm_up(loaded_stage& x, const manifest& of, size_t first,
                     size_t max_batch, nanoseconds short_pass,
                     const timed_pass& tell) {
  for (size_t rows : {size_t{1}, max_batch}) {
    auto inputs = zeros_across(of, first, rows);
    if (!inputs)
      return inputs.failure();
    auto done = warm_up_rows(x, *inputs, rows, short_pass, tell);
    if (!done || max_batch <= 1 || of.signature.batch_axis < 0)
      return done;
  }
  return {};
}

} // namespace millrace
