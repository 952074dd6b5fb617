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
  auto ready = to_seconds(steady_now() - begin);
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
  seconds out{ready, 0};
  for (uint64_t i = 0; i < open; ++i) {
    auto x = gateway_->receive(load_patience);
    if (!x || x->reply.status != ec::ok)
      return x ? error{x->reply.status, x->reply.error, {}}
               : error{ec::unavailable, "no answer", {}};
    if (i == 0)
      out.first_answer = to_seconds(steady_now() - begin);
  }
  return out;
}

/// Orders so many copies, and waits until they are there and no others.
result<void> starts_by_order::want(uint64_t copies) {
  auto list = shell_->ask<model_list>("./registry", get_models{});
  if (!list)
    return list.failure();
  auto settings = list->models.at(0).settings;
  settings.replicas = copies;
  auto done_so =
    shell_->ask<done>("./registry", set_model{settings, false, {}});
  if (!done_so)
    return done_so.failure();
  std::string note;
  for (auto until = steady_now() + load_patience; steady_now() < until;) {
    shell_->idle(look_again);
    list = shell_->ask<model_list>("./registry", get_models{});
    if (!list)
      return list.failure();
    auto& x = list->models.at(0);
    note = x.note;
    if (x.settings.replicas == copies && x.ready == copies && x.starting == 0)
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
