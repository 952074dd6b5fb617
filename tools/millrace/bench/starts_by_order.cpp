// SPDX-License-Identifier: Apache-2.0
#include "millrace/bench/starts_by_order.hpp"

#include "millrace/bench/driver.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

constexpr auto load_patience = 300s;
constexpr uint64_t for_each_copy = 4; ///< requests, of several
/// Rarely, for whoever loads it needs the processors.
constexpr auto look_again = 5ms;

} // namespace

result<starts_by_order::seconds> starts_by_order::load(uint64_t copies) {
  auto begin = steady_now();
  if (auto done = want(copies); !done)
    return done.failure();
  auto ready = steady_now();
  if (request_.model.empty()) {
    auto request = request_for(model_, *gateway_);
    if (!request)
      return request.failure();
    request_ = std::move(*request);
  }
  // As many at a time as have something to do each, when it is shared out.
  auto open = copies == 1 ? 1 : for_each_copy * copies;
  for (uint64_t i = 0; i < open; ++i)
    gateway_->submit(request_);
  timestamp first;
  for (uint64_t i = 0; i < open; ++i) {
    auto x = gateway_->receive(load_patience);
    if (!x || x->reply.status != ec::ok)
      return x ? error{x->reply.status, x->reply.error, {}}
               : error{ec::unavailable, "no answer", {}};
    if (i == 0)
      first = steady_now();
  }
  auto decided = decision_after(begin);
  if (!decided)
    return decided.failure();
  return seconds{to_seconds(ready - *decided), to_seconds(first - *decided)};
}

/// When the first start since then was decided.
result<timestamp> starts_by_order::decision_after(timestamp order) {
  auto x = shell_->ask<start_list>("./placement", get_starts{});
  if (!x)
    return x.failure();
  auto out = steady_now();
  for (auto& start : x->starts)
    if (auto at = steady_now() - start.ago; at >= order)
      out = std::min<timestamp>(out, at);
  return out;
}

/// How it is, once it is registered.
result<model_status> starts_by_order::status() {
  for (auto until = steady_now() + load_patience; steady_now() < until;
       shell_->idle(look_again)) {
    auto list = shell_->ask<model_list>("./registry", get_models{});
    if (!list)
      return list.failure();
    if (!list->models.empty())
      return list->models.front();
  }
  return error{ec::unknown_model, model_ + " is not registered", {}};
}

/// Orders so many copies, and waits until they are there and no others.
result<void> starts_by_order::want(uint64_t copies) {
  auto is = status();
  if (!is)
    return is.failure();
  is->settings.replicas = copies;
  auto done_so =
    shell_->ask<done>("./registry", set_model{is->settings, false, {}});
  if (!done_so)
    return done_so.failure();
  std::string note;
  for (auto until = steady_now() + load_patience; steady_now() < until;) {
    shell_->idle(look_again);
    is = status();
    if (!is)
      return is.failure();
    note = is->note;
    if (is->settings.replicas == copies && is->ready == copies
        && is->starting == 0)
      return {};
  }
  return error{ec::unavailable,
               model_ + " was not loaded within "
                 + format_duration(load_patience)
                 + (note.empty() ? "" : ": " + note),
               {}};
}

result<replica_start> starts_by_order::latest() {
  auto x = shell_->ask<start_list>("./placement", get_starts{});
  if (!x)
    return x.failure();
  if (x->starts.empty())
    return error{ec::unavailable, "the controller knows of no start", {}};
  return x->starts.front();
}

result<cluster_by_order> cluster_by_order::start(const bench_setup& x,
                                                 const std::string& model) {
  cluster_by_order out;
  auto nodes = bench_cluster::start(x);
  if (!nodes)
    return nodes.failure();
  out.nodes_ = std::move(*nodes);
  auto gateway = out.nodes_->connect(0);
  if (!gateway)
    return gateway.failure();
  out.gateway_ = std::make_unique<client>(std::move(*gateway));
  auto shell = out.nodes_->operate();
  if (!shell)
    return shell.failure();
  out.shell_ = std::make_unique<operator_client>(std::move(*shell));
  out.model_.emplace(model, *out.gateway_, *out.shell_);
  return out;
}

} // namespace millrace
