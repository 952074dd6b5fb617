// SPDX-License-Identifier: Apache-2.0
#include "models/device/warm_up.hpp"

namespace millrace {

namespace {

result<void> warm_up_rows(loaded_stage& x, const signature& s, size_t rows,
                          nanoseconds short_pass, const timed_pass& tell) {
  tensor_list inputs;
  size_t bytes = 0;
  for (auto& spec : s.inputs) {
    auto zeros = tensor::zeros(
      spec.type, with_rows(spec, s.batch_axis, static_cast<int64_t>(rows)));
    if (!zeros)
      return zeros.failure();
    bytes += zeros->data.size();
    inputs.push_back(std::move(*zeros));
  }
  for (int pass = 0, passes = 2; pass < passes; ++pass) {
    auto begin = std::chrono::steady_clock::now();
    if (auto y = x.run(inputs); !y)
      return y.failure();
    auto took = std::chrono::steady_clock::now() - begin;
    if (pass > 0)
      tell(rows, bytes, took);
    if (took < short_pass)
      passes = 8;
  }
  return {};
}

} // namespace

result<void> warm_up(loaded_stage& x, const signature& s, size_t max_batch,
                     nanoseconds short_pass, const timed_pass& tell) {
  auto done = warm_up_rows(x, s, 1, short_pass, tell);
  if (done && max_batch > 1 && s.batch_axis >= 0)
    done = warm_up_rows(x, s, max_batch, short_pass, tell);
  return done;
}

} // namespace millrace
