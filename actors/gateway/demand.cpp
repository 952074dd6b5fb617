// SPDX-License-Identifier: Apache-2.0

/// \file
/// Demand reports of a GATEWAY, in two steps. The gateway requests the backlog
/// of each router with open requests. When all have answered, or the next
/// report is due, the gateway sends the report to every controller.

#include <algorithm>

#include "actors/gateway/gateway_state.hpp"
#include "actors/policies/state/duration_bins.hpp"

namespace millrace {

namespace {

/// How often a report has all models, in case a report was lost.
constexpr microseconds all_every = 5s;

} // namespace

void demand_count::answered(ec status, microseconds waited, microseconds took,
                            microseconds deadline) {
  changed_ = true;
  switch (status) {
  case ec::ok:
    ++counts_.ok;
    counts_.within += took <= (slo_ > 0us ? slo_ : deadline);
    counts_.waits.add(waited);
    ++latencies_[duration_bin(took)];
    break;
  case ec::deadline_exceeded:
    ++counts_.late;
    break;
  case ec::overloaded:
    ++counts_.overloaded;
    break;
  case ec::unavailable:
    ++counts_.unavailable;
    break;
  default:
    ++counts_.failed;
  }
}

stage_counters& demand_count::stage_of(const layer_range& layers) {
  auto& all = counts_.stages;
  auto i = std::find_if(all.begin(), all.end(),
                        [&](auto& x) { return !(x.layers < layers); });
  if (i == all.end() || !(i->layers == layers))
    i = all.insert(i, {layers, 0, {}, {}, 0});
  return *i;
}

void demand_count::executed(const requests_completed& message,
                            uint64_t requests) {
  changed_ = true;
  counts_.device_seconds += to_seconds(message.execute);
  counts_.executed += requests;
  auto& visits = message.visits;
  // An output that is held waits for the next stage.
  auto waited_before = [&](size_t i) {
    return visits[i].queue + visits[i - 1].held;
  };
  auto first = 0us;
  for (auto& y : message.outcomes)
    first = std::max(first, y.queue);
  for (size_t i = 1; i < visits.size(); ++i)
    first -= waited_before(i);
  auto add = [&](const layer_range& layers, microseconds wait,
                 microseconds run) {
    auto& to = stage_of(layers);
    to.requests += requests;
    to.waits.add(std::max(0us, wait));
    to.waited +=
      to_seconds(std::max(0us, wait)) * static_cast<double>(requests);
    to.runs.add(run);
  };
  if (visits.empty())
    add({}, first, message.execute);
  for (size_t i = 0; i < visits.size(); ++i)
    add(visits[i].layers, i == 0 ? first : waited_before(i), visits[i].execute);
}

model_counters demand_count::report(timestamp now) const {
  auto out = counts_;
  auto bin = static_cast<uint64_t>((now - begun_) / arrival_bins::length);
  // The latest bins, from the first to the last that is not empty.
  auto since = bin < bins_.size() ? 0 : bin + 1 - bins_.size();
  for (auto i = since; i <= newest_bin_; ++i) {
    auto n = bins_[i % bins_.size()];
    if (n == 0 && out.bins.counts.empty())
      continue;
    if (out.bins.counts.empty())
      out.bins.first = i;
    out.bins.counts.push_back(n);
  }
  auto any = [](uint64_t n) { return n > 0; };
  auto first = std::find_if(latencies_.begin(), latencies_.end(), any);
  auto last = std::find_if(latencies_.rbegin(), latencies_.rend(), any).base();
  if (first < last) {
    out.latencies.first = static_cast<uint64_t>(first - latencies_.begin());
    out.latencies.counts.assign(first, last);
  }
  return out;
}

void demand_count::show(metrics& in) {
  auto& x = counts_;
  if (!series_)
    series_ =
      series{in.demand_arrivals(x.model), in.slo_answers(x.model, "true"),
             in.slo_answers(x.model, "false")};
  auto others =
    x.ok - x.within + x.late + x.overloaded + x.unavailable + x.failed;
  auto add = [](counter& to, uint64_t is, uint64_t& shown) {
    to.add(static_cast<double>(is - shown));
    shown = is;
  };
  add(series_->arrivals, x.arrived, arrivals_shown_);
  add(series_->within, x.within, within_shown_);
  add(series_->others, others, others_shown_);
}

demand_count& gateway_state::demand_for(const std::string& model) {
  auto i = demand_.find(model);
  if (i == demand_.end()) {
    i = demand_.emplace(model, demand_count{model, begun_}).first;
    if (auto* wanted = find_wanted(model))
      i->second.set_slo(wanted->slo);
  }
  return i->second;
}

void gateway_state::on_peer_up(const peer_up& message) {
  controllers_.insert(message.peer.name);
}

void gateway_state::on_peer_down(const peer_down& message) {
  controllers_.erase(message.peer.name);
}

/// Reports at once, before the next demand report, that requests wait for a
/// model without a replica.
void gateway_state::press(const served& model) {
  if (options_.demand_period > 0us)
    to_controllers(pressure{model.info.model});
}

template <class T>
void gateway_state::to_controllers(const T& message) {
  auto send = [&](const std::string& node) {
    if (auto to = bus_->resolve(node + "/cluster_state"))
      self_->send(caf::actor_cast<cluster_state_actor>(to), message);
  };
  if (bus_->self().has_role("controller"))
    send(bus_->self().name);
  for (auto& node : controllers_)
    send(node);
}

void gateway_state::begin_report() {
  report_due_ = now() + options_.demand_period;
  if (std::exchange(backlogs_awaited_, 0) > 0)
    send_report();
  for (auto& [model, x] : demand_)
    if (x.counts().waiting > 0)
      x.set_backlog(0, 0us);
  for (auto& m : models_)
    if (m.open > 0) {
      ++backlogs_awaited_;
      self_->send(m.router, get_backlog{});
      if (m.waits && m.replicas.empty())
        press(m);
    }
  if (backlogs_awaited_ == 0)
    send_report();
}

void gateway_state::on_backlog(const backlog& message) {
  auto m = std::find_if(models_.begin(), models_.end(), [&](auto& y) {
    return y.router == self_->current_sender();
  });
  if (m == models_.end() || backlogs_awaited_ == 0)
    return;
  auto& of = *m->demand; // of all versions
  of.set_backlog(of.counts().waiting + message.waiting,
                 std::max(of.counts().oldest, message.oldest));
  if (--backlogs_awaited_ == 0)
    send_report();
}

void gateway_state::send_report() {
  auto time = now();
  auto all = time >= all_reported_ + all_every;
  if (all)
    all_reported_ = time;
  demand_report x;
  x.node = bus_->self().name;
  x.incarnation = bus_->self().incarnation;
  x.life = self_->id();
  x.sequence = ++last_report_;
  x.end = to_us(time - begun_);
  for (auto& [model, y] : demand_)
    if (y.take_change() || all) {
      if (may_answer(model))
        y.show(*counts_);
      else
        y.hide();
      x.models.push_back(y.report(time));
    }
  to_controllers(x);
}

} // namespace millrace
