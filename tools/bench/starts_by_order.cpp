// SPDX-License-Identifier: Apache-2.0
#include "bench/starts_by_order.hpp"

#include "bench/driver.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

constexpr auto load_patience = 300s;
constexpr uint64_t for_each_copy = 4; ///< requests per copy, if several
/// Polls rarely, because loading needs the processors.
constexpr auto look_again = 5ms;

} // namespace

result<starts_by_order::seconds> starts_by_order::load(uint64_t copies) {
  auto ordered = steady_now();
  if (auto done = order(copies); !done)
    return done.failure();
  // Enough open requests for each copy to get some.
  auto open = copies == 1 ? 1 : for_each_copy * copies;
  if (copies > 1)
    if (auto there = wait_for(copies); !there)
      return there.failure();
  auto first = answers(open);
  if (!first)
    return first.failure();
  if (auto there = wait_for(copies); !there)
    return there.failure();
  auto x = shell_->ask<start_list>("./placement", get_starts{});
  if (!x)
    return x.failure();
  auto decided = *first, ready = ordered;
  for (auto& start : x->starts)
    if (auto at = steady_now() - start.ago; at >= ordered) {
      decided = std::min<timestamp>(decided, at);
      ready = std::max<timestamp>(ready, at + start.ready);
    }
  return seconds{to_seconds(ready - decided), to_seconds(*first - decided)};
}

/// Sends requests until this number has been answered; returns the time of the
/// first answer. Retries requests that are refused without a replica.
result<timestamp> starts_by_order::answers(uint64_t open) {
  auto until = steady_now() + load_patience;
  for (uint64_t i = 0; i < open; ++i)
    gateway_->submit(request_);
  std::optional<timestamp> first;
  for (uint64_t i = 0; i < open;) {
    auto x = gateway_->receive(load_patience);
    if (!x)
      return error{ec::unavailable, "no answer", {}};
    if (x->reply.status == ec::ok) {
      first = first.value_or(steady_now());
      ++i;
      continue;
    }
    auto is_early = x->reply.status == ec::unavailable
                    || x->reply.status == ec::unknown_model;
    if (!is_early || steady_now() > until)
      return error{x->reply.status, x->reply.error, {}};
    shell_->idle(look_again);
    gateway_->submit(request_);
  }
  return *first;
}

result<model_status> starts_by_order::status() {
  auto list = shell_->ask<model_list>("./registry", get_models{});
  if (!list)
    return list.failure();
  return list->models.empty() ? model_status{} : list->models.front();
}

/// Orders this number of replicas, once the model is registered.
result<void> starts_by_order::order(uint64_t copies) {
  for (auto until = steady_now() + load_patience; steady_now() < until;
       shell_->idle(look_again)) {
    auto is = status();
    if (!is)
      return is.failure();
    if (is->settings.model.empty())
      continue;
    is->settings.replicas = copies;
    auto x = shell_->ask<ack>("./registry", set_model{is->settings, false, {}});
    return x ? result<void>{} : x.failure();
  }
  return error{ec::unknown_model, model_ + " is not registered", {}};
}

/// Waits until exactly this number of replicas is ready.
result<void> starts_by_order::wait_for(uint64_t copies) {
  std::string note;
  for (auto until = steady_now() + load_patience; steady_now() < until;
       shell_->idle(look_again)) {
    auto is = status();
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

result<void> starts_by_order::unload() {
  auto done = order(0);
  return done ? wait_for(0) : done;
}

result<replica_start> starts_by_order::latest() {
  auto x = shell_->ask<start_list>("./placement", get_starts{});
  if (!x)
    return x.failure();
  if (x->starts.empty())
    return error{ec::unavailable, "the controller knows of no start", {}};
  return x->starts.front();
}

result<cluster_by_order> cluster_by_order::start(const bench_setup& setup,
                                                 const manifest& model) {
  cluster_by_order out;
  auto nodes = bench_cluster::start(setup);
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
