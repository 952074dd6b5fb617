// SPDX-License-Identifier: Apache-2.0
#include "actors/profiler/measurer_state.hpp"

#include <algorithm>

#include "models/crossing.hpp"

namespace millrace {

namespace {

/// Runs of one size of batch; their median counts.
constexpr size_t runs_of_each = 5;

/// To fetch, load or run.
constexpr auto patience = 10min;

double median_of(std::vector<double> xs) {
  auto middle = xs.begin() + static_cast<std::ptrdiff_t>(xs.size() / 2);
  std::nth_element(xs.begin(), middle, xs.end());
  return *middle;
}

double size_of(const tensor_list& xs) {
  size_t n = 0;
  for (auto& x : xs)
    n += x.data.size();
  return static_cast<double>(n);
}

} // namespace

void measurer_state::start(
  measurer_actor::stateful_pointer<measurer_state> self,
  measurer_options options) {
  self_ = self;
  options_ = std::move(options);
  set_common_handlers(self);
  self->set_down_handler([this](const caf::down_msg& x) {
    fail(from_caf(x.reason).within("the device"));
  });
  self->monitor(options_.executor);
}

timestamp measurer_state::now() const {
  return self_->clock().now();
}

caf::result<measured> measurer_state::on_measure(measure& x) {
  what_ = std::move(x);
  promise_ = self_->make_response_promise<measured>();
  std::sort(what_.rows.begin(), what_.rows.end());
  auto wrong = what_.rows.empty() || what_.rows.front() == 0
               || what_.rows.back() > max_rows_measured
               || what_.rows.size() > max_sizes_measured;
  if (wrong) {
    fail({ec::bad_request,
          "rows: expected 1 to " + std::to_string(max_sizes_measured)
            + " numbers from 1 to " + std::to_string(max_rows_measured)});
    return promise_;
  }
  begun_ = now();
  self_->request(options_.cache, patience, fetch{what_.model, what_.version})
    .then([this](const fetched& y) { on_fetched(y); },
          [this](const caf::error& y) { fail(from_caf(y)); });
  return promise_;
}

void measurer_state::on_fetched(const fetched& x) {
  content_ = x.content;
  info_ = x.info;
  open_seconds_ = to_seconds(now() - begun_);
  auto layers = content_->info.layers.size();
  if (content_->info.signature.batch_axis < 0)
    what_.rows = {1};
  stages_.push_back({{0, layers}, {}, {}});
  for (uint64_t i = 0; layers > 1 && i < layers; ++i)
    stages_.push_back({{i, i + 1}, {}, {}});
  self_->request(options_.executor, patience, get_load{})
    .then([this](const device_load& y) { on_idle(y); },
          [this](const caf::error& y) { fail(from_caf(y)); });
}

void measurer_state::on_idle(const device_load& x) {
  if (x.running + x.waiting + x.memory > 0)
    return fail({ec::unavailable, "device " + x.device
                                    + " has replicas: to measure it has to be"
                                      " idle"});
  batches_ = x.batches;
  load_next();
}

void measurer_state::load_next() {
  auto& s = stages_[stage_];
  self_
    ->request(options_.executor, patience,
              load_stage{self_->id(), content_, s.layers.first, s.layers.last,
                         what_.rows.back(), 1, false, 0})
    .then([this](const stage_loaded& x) { on_loaded(x); },
          [this](const caf::error& x) { fail(from_caf(x)); });
}

void measurer_state::on_loaded(const stage_loaded& x) {
  stages_[stage_].loaded = x;
  run_next();
}

void measurer_state::run_next() {
  auto& s = stages_[stage_];
  if (runs_.size() == runs_of_each)
    s.medians.push_back(median_of(std::exchange(runs_, {})));
  if (s.medians.size() < what_.rows.size()) {
    auto rows = what_.rows[s.medians.size()];
    auto inputs = zeros_across(content_->info, s.layers.first, rows);
    if (!inputs)
      return fail(inputs.failure());
    execute x;
    x.id = ++mine_;
    x.instance = self_->id();
    x.items.push_back(std::move(*inputs));
    x.rows = {rows};
    self_->send(options_.executor, std::move(x));
    return;
  }
  self_->send(options_.executor, unload_stage{self_->id()});
  if (options_.progress)
    options_.progress(stage_ + 1, stages_.size());
  if (++stage_ < stages_.size())
    return load_next();
  self_->request(options_.executor, patience, get_load{})
    .then([this](const device_load& x) { finish(x); },
          [this](const caf::error& x) { fail(from_caf(x)); });
}

void measurer_state::on_executed(const executed& x) {
  if (over_)
    return;
  if (x.status != ec::ok)
    return fail({x.status, x.text});
  runs_.push_back(to_seconds(x.run));
  run_next();
}

void measurer_state::on_lost(const stage_lost& x) {
  fail({ec::unavailable, x.text});
}

void measurer_state::finish(const device_load& x) {
  if (x.batches != batches_ + mine_)
    return fail(
      {ec::unavailable, "others used device " + x.device + " meanwhile"});
  measured out;
  out.what.what.model = what_.model;
  out.what.layers = info_.layers_key;
  out.what.source = options_.source;
  auto& points = out.what.what.points;
  auto& info = content_->info;
  double attached = 0;
  for (size_t i = 1; i < stages_.size(); ++i)
    attached += to_seconds(stages_[i].loaded.load);
  auto& whole = stages_.front();
  // Every load has it in it, the whole model's once.
  auto fixed = stages_.size() < 3
                 ? 0
                 : std::max(0.0, attached - to_seconds(whole.loaded.load))
                     / static_cast<double>(stages_.size() - 2);
  for (auto& s : stages_) {
    auto is_whole = &s == &whole;
    for (size_t i = 0; i < what_.rows.size(); ++i) {
      profile_point p;
      p.device = options_.kind;
      p.batch = static_cast<double>(what_.rows[i]);
      if (!is_whole)
        p.dimensions["layer"] = static_cast<double>(s.layers.first);
      auto& m = p.metrics;
      m["execute_seconds"] = s.medians[i];
      auto before = zeros_across(info, s.layers.first, what_.rows[i]);
      auto behind = zeros_across(info, s.layers.last, what_.rows[i]);
      if (before && behind)
        m["activation_bytes"] = size_of(*before) + size_of(*behind);
      if (i > 0) {
        points.push_back(std::move(p));
        continue;
      }
      m["memory_bytes"] = static_cast<double>(s.loaded.memory);
      if (is_whole) {
        m["open_seconds"] = open_seconds_;
        m["load_seconds"] = to_seconds(s.loaded.load);
        m["warm_up_seconds"] = to_seconds(s.loaded.warm_up);
        m["part_attach_seconds"] = fixed;
      } else {
        auto of_a_row = zeros_across(info, s.layers.last, 1);
        m["parameter_bytes"] =
          static_cast<double>(info.layers[s.layers.first].parameter_bytes);
        m["attach_seconds"] = std::max(0.0, to_seconds(s.loaded.load) - fixed);
        m["output_bytes"] = of_a_row ? size_of(*of_a_row) : 0;
      }
      points.push_back(std::move(p));
    }
  }
  over_ = true;
  promise_.deliver(std::move(out));
  self_->quit();
}

void measurer_state::fail(error why) {
  if (over_)
    return;
  over_ = true;
  promise_.deliver(to_caf(why));
  self_->quit();
}

measurer_actor::behavior_type
measurer(measurer_actor::stateful_pointer<measurer_state> self,
         measurer_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](measure& x) { return s.on_measure(x); },
    [&s](const executed& x) { s.on_executed(x); },
    [&s](const stage_lost& x) { s.on_lost(x); },
  };
}

} // namespace millrace
