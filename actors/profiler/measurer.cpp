// SPDX-License-Identifier: Apache-2.0
#include "actors/profiler/measurer_state.hpp"

#include <algorithm>
#include <numeric>

#include "models/crossing.hpp"

namespace millrace {

namespace {

/// Runs per batch size and loads per stage; the median is used.
constexpr size_t runs_of_each = 5;
constexpr size_t loads_of_each = 3;

/// Timeout of a fetch, a load or a run.
constexpr auto measure_patience = 10min;

double median_of(std::vector<double> xs) {
  auto middle = xs.begin() + static_cast<std::ptrdiff_t>(xs.size() / 2);
  std::nth_element(xs.begin(), middle, xs.end());
  return *middle;
}

/// Splits the seconds of layers measured alone (`each`) into a fixed cost and a
/// share of the seconds of all layers together (`whole`).
shares shares_of(double whole, const std::vector<double>& each) {
  // Times the least layer: the rest is above noise.
  constexpr double most_fixed = 0.9;
  auto n = static_cast<double>(each.size());
  if (n < 2)
    return {};
  auto sum = std::accumulate(each.begin(), each.end(), 0.0);
  auto least = *std::min_element(each.begin(), each.end());
  shares out;
  out.fixed = std::clamp((sum - whole) / (n - 1), 0.0,
                         std::min(whole, most_fixed * least));
  if (auto above = sum - n * out.fixed; above > 0)
    out.scale = (whole - out.fixed) / above;
  return out;
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

caf::result<measured> measurer_state::on_measure(measure& request) {
  what_ = std::move(request);
  promise_ = self_->make_response_promise<measured>();
  std::sort(what_.rows.begin(), what_.rows.end());
  auto wrong = what_.rows.empty() || what_.rows.front() == 0
               || what_.rows.back() > max_rows_measured
               || what_.rows.size() > max_sizes_measured
               || what_.extent > max_extent_measured;
  if (wrong) {
    fail({ec::bad_request, "expected 1 to " + std::to_string(max_sizes_measured)
                             + " numbers of rows from 1 to "
                             + std::to_string(max_rows_measured)
                             + ", and an extent of at most "
                             + std::to_string(max_extent_measured)});
    return promise_;
  }
  begun_ = now();
  self_
    ->request(options_.cache, measure_patience,
              fetch{what_.model, what_.version, {}, {}})
    .then([this](const fetched& y) { on_fetched(y); },
          [this](const caf::error& y) { fail(from_caf(y)); });
  return promise_;
}

void measurer_state::on_fetched(const fetched& message) {
  content_ = message.content;
  info_ = message.info;
  open_seconds_ = to_seconds(now() - begun_);
  auto layers = content_->info.layers.size();
  auto& s = content_->info.signature;
  if (s.batch_axis < 0)
    what_.rows = {1};
  if (what_.extent == 0)
    what_.extent = static_cast<uint64_t>(s.usual_extent);
  stages_.push_back({{0, layers}});
  for (uint64_t i = 0; layers > 1 && i < layers; ++i)
    stages_.push_back({{i, i + 1}});
  self_->request(options_.executor, measure_patience, get_load{})
    .then([this](const device_load& y) { on_idle(y); },
          [this](const caf::error& y) { fail(from_caf(y)); });
}

void measurer_state::on_idle(const device_load& load) {
  if (load.running + load.waiting > 0)
    return fail({ec::unavailable,
                 "device " + load.device + " has "
                   + std::to_string(load.running + load.waiting)
                   + " batches to run: measure while its replicas have no"
                     " requests, or 'unload' their models first"});
  before_ = load;
  load_next();
}

void measurer_state::load_next() {
  auto& s = stages_[stage_];
  self_
    ->request(options_.executor, measure_patience,
              load_stage{self_->id(), content_, s.layers.first, s.layers.last,
                         what_.rows.back(), 1, false, 0})
    .then([this](const stage_loaded& x) { on_loaded(x); },
          [this](const caf::error& x) { fail(from_caf(x)); });
}

void measurer_state::on_loaded(const stage_loaded& message) {
  auto& s = stages_[stage_];
  s.loaded = message;
  open_seconds_ += to_seconds(message.came); // nonzero for the first load only
  s.loads.push_back(to_seconds(message.load));
  if (s.loads.size() == loads_of_each)
    return run_next();
  self_->send(options_.executor, unload_stage{self_->id()});
  load_next();
}

/// Inputs of the next run: zeros for the first layer, and for each later layer
/// the outputs of the layer before, which have the right extents.
result<tensor_list> measurer_state::next_inputs() const {
  auto& s = stages_[stage_];
  auto size = s.by_rows.size();
  if (s.layers.first == 0)
    return zeros_as_inputs(content_->info, what_.rows[size], what_.extent);
  return taken_.at(size);
}

void measurer_state::run_next() {
  auto& s = stages_[stage_];
  if (runs_.size() == runs_of_each) {
    now_.seconds = median_of(std::exchange(runs_, {}));
    s.by_rows.push_back(std::exchange(now_, {}));
    metered_ = false;
  }
  if (s.by_rows.size() < what_.rows.size()) {
    auto inputs = next_inputs();
    if (!inputs)
      return fail(inputs.failure());
    now_.takes = size_of(*inputs);
    execution x;
    x.id = ++mine_;
    x.instance = self_->id();
    x.items.push_back(std::move(*inputs));
    x.rows = {what_.rows[s.by_rows.size()]};
    x.meters_memory = !metered_;
    self_->send(options_.executor, std::move(x));
    return;
  }
  self_->send(options_.executor, unload_stage{self_->id()});
  taken_ = std::exchange(given_, {});
  if (options_.progress)
    options_.progress(stage_ + 1, stages_.size());
  if (++stage_ < stages_.size())
    return load_next();
  self_->request(options_.executor, measure_patience, get_load{})
    .then([this](const device_load& x) { finish(x); },
          [this](const caf::error& x) { fail(from_caf(x)); });
}

void measurer_state::on_report(execution_report& message) {
  if (over_)
    return;
  if (message.ok() && message.outputs->empty())
    return fail({ec::internal, "a run returned no outputs"});
  if (!message.ok()) {
    auto& s = stages_[stage_];
    return fail(error{message.outputs.failure()}.within(
      "layers " + std::to_string(s.layers.first) + " to "
      + std::to_string(s.layers.last - 1) + " of " + what_.model + ", rows "
      + std::to_string(what_.rows[s.by_rows.size()]) + ", free extents "
      + std::to_string(what_.extent)));
  }
  // The first run meters memory, which takes longer, so its time does not
  // count.
  if (std::exchange(metered_, true)) {
    runs_.push_back(to_seconds(message.run()));
  } else {
    now_.gives = size_of(message.outputs->front());
    now_.peak = static_cast<double>(message.peak);
    given_.push_back(std::move(message.outputs->front()));
  }
  run_next();
}

void measurer_state::on_lost(const stage_lost& message) {
  fail({ec::unavailable, message.text});
}

/// Splits a duration of all stages, either loads or runs with one number of
/// rows.
shares measurer_state::shares_by(
  const std::function<double(const stage&)>& seconds) const {
  std::vector<double> each;
  for (size_t i = 1; i < stages_.size(); ++i)
    each.push_back(seconds(stages_[i]));
  return shares_of(seconds(stages_.front()), each);
}

/// Adds the points of one stage.
void measurer_state::add_points(const stage& s, const shares& loads,
                                const std::vector<shares>& runs,
                                std::vector<profile_point>& to) const {
  auto is_whole = &s == &stages_.front();
  for (size_t i = 0; i < what_.rows.size(); ++i) {
    auto& of = s.by_rows[i];
    auto& p = to.emplace_back();
    p.device = options_.kind;
    p.batch = static_cast<double>(what_.rows[i]);
    if (!is_whole)
      p.dimensions["layer"] = static_cast<double>(s.layers.first);
    auto& m = p.metrics;
    m["execute_seconds"] = is_whole ? of.seconds : runs[i].of(of.seconds);
    m["activation_bytes"] = of.takes + std::max(of.peak, of.gives);
    if (i > 0)
      continue;
    m["memory_bytes"] = static_cast<double>(s.loaded.memory);
    if (is_whole) {
      m["open_seconds"] = open_seconds_;
      m["load_seconds"] = median_of(s.loads);
      m["deadline_seconds"] = of.seconds * (1 + what_.threshold);
      m["warm_up_seconds"] = to_seconds(s.loaded.warm_up);
      m["part_attach_seconds"] = loads.fixed;
    } else {
      auto& layer = content_->info.layers[s.layers.first];
      m["parameter_bytes"] = static_cast<double>(layer.parameter_bytes);
      m["attach_seconds"] = loads.of(median_of(s.loads));
      m["output_bytes"] = of.gives / p.batch;
    }
  }
}

void measurer_state::finish(const device_load& load) {
  if (load.batches != before_.batches + mine_
      || load.loads != before_.loads + loads_of_each * stages_.size())
    return fail(
      {ec::unavailable, "requests or loads of others used device " + load.device
                          + " meanwhile: measure again, or 'unload' the models"
                            " on it first"});
  profile out{what_.model, {}, info_.layers_key, {}};
  auto& source = out.sources[options_.kind] = options_.source;
  if (what_.extent > 1)
    source += ", extents of " + std::to_string(what_.extent);
  auto loads = shares_by([](const stage& s) { return median_of(s.loads); });
  std::vector<shares> runs;
  for (size_t i = 0; i < what_.rows.size(); ++i)
    runs.push_back(
      shares_by([i](const stage& s) { return s.by_rows[i].seconds; }));
  for (auto& s : stages_)
    add_points(s, loads, runs, out.points);
  over_ = true;
  promise_.deliver(measured{pack(out)});
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
    [&s](execution_report& x) { s.on_report(x); },
    [&s](const stage_lost& x) { s.on_lost(x); },
  };
}

} // namespace millrace
