// SPDX-License-Identifier: Apache-2.0
#include "models/import/verification.hpp"

#include "models/import/layers.hpp"

namespace millrace {

namespace {

/// The outputs of the bundle run as one stage; an error if running it layer by
/// layer gives other results.
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
                   + ": its layers give other results than the whole"};
  return at_once;
}

} // namespace

result<bool> verify_by_running(backend& runner,
                               const std::shared_ptr<const bundle>& opened) {
  auto whole = runner.load(opened, 0, opened->info.layers.size());
  if (!whole)
    return whole.failure();
  auto samples = read_samples(*opened);
  if (!samples)
    return samples.failure();
  auto& s = opened->info.signature;
  random_stream random{3};
  auto fresh = sample_source{}.inputs(s, random, s.batch_axis < 0 ? 1 : 2);
  if (!fresh)
    return fresh.failure();
  // A model with samples may not accept random numbers.
  if (auto y = run_both_ways(runner, opened, **whole, *fresh);
      !y && (!*samples || y.failure().code != ec::internal))
    return y.failure();
  if (!*samples)
    return false;
  auto y = run_both_ways(runner, opened, **whole, (*samples)->inputs);
  if (!y)
    return y.failure();
  if (!are_close(*y, (*samples)->outputs))
    return error{ec::bad_config,
                 opened->directory
                   + ": its results differ from those at its import"};
  return true;
}

} // namespace millrace
