// SPDX-License-Identifier: Apache-2.0
#include "models/import/verification.hpp"

#include "models/import/layers.hpp"

namespace millrace {

namespace {

/// What the bundle makes of these in one stage, if layer by layer it makes the
/// same.
result<tensor_list> run_both_ways(backend& runner,
                                  const std::shared_ptr<const bundle>& x,
                                  loaded_stage& whole,
                                  const tensor_list& inputs) {
  auto at_once = whole.run(inputs);
  if (!at_once || x->info.layers.size() == 1)
    return at_once;
  auto layered = run_by_layers(runner, x, {inputs});
  if (!layered)
    return layered.failure();
  if (!are_close(layered->front(), *at_once))
    return error{ec::bad_config,
                 x->directory
                   + ": its layers compute something else than at once"};
  return at_once;
}

} // namespace

result<bool> verify_by_running(backend& runner,
                               const std::shared_ptr<const bundle>& x) {
  auto whole = runner.load(x, 0, x->info.layers.size());
  if (!whole)
    return whole.failure();
  auto samples = read_samples(*x);
  if (!samples)
    return samples.failure();
  auto& s = x->info.signature;
  random_stream random{3};
  auto fresh = sample_source{}.inputs(s, random, s.batch_axis < 0 ? 1 : 2);
  if (!fresh)
    return fresh.failure();
  // Not every model that has samples takes random numbers, too.
  if (auto y = run_both_ways(runner, x, **whole, *fresh);
      !y && (!*samples || y.failure().code != ec::internal))
    return y.failure();
  if (!*samples)
    return false;
  auto y = run_both_ways(runner, x, **whole, (*samples)->inputs);
  if (!y)
    return y.failure();
  if (!are_close(*y, (*samples)->outputs))
    return error{ec::bad_config,
                 x->directory
                   + ": it does not compute what the model did when it was"
                     " imported"};
  return true;
}

} // namespace millrace
