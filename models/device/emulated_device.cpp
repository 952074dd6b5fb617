// SPDX-License-Identifier: Apache-2.0
#include "models/device/emulated_device.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "models/crossing.hpp"
#include "models/device/load_times.hpp"
#include "models/device/measured_times.hpp"

namespace millrace {

namespace {

using seconds_d = std::chrono::duration<double>;

uint64_t bytes_of_weights(const load_request& x) {
  auto n = weight_bytes(*x.content, x.first_layer, x.last_layer);
  if (!x.content->weights.empty())
    return n;
  // A simulated bundle has no weights; its manifest has their sizes.
  for (auto i = x.first_layer; i < x.last_layer; ++i)
    n += x.content->info.layers[i].parameter_bytes;
  return n;
}

/// The fraction of the model's layers in this load.
double part_of(const load_request& x) {
  return static_cast<double>(x.last_layer - x.first_layer)
         / static_cast<double>(x.content->info.layers.size());
}

class emulated_device : public device {
public:
  emulated_device(device_info info, emulation how, device_listener& listener,
                  emulated_environment environment)
    : info_(std::move(info)),
      how_(std::move(how)),
      listener_(listener),
      environment_(std::move(environment)),
      law_(
        make_contention_law(how_.interference, environment_.contention_seed)) {
    info_.lanes = std::max(1u, info_.lanes);
    if (!environment_.process)
      environment_.process = std::make_shared<host_process>();
  }

  void load(load_request request, timestamp now) override {
    auto id = request.instance;
    auto& y = loaded_[id];
    y.what = std::move(request);
    learn(y);
    move_on(now);
    if (how_.steps == load_steps::streamed || !y.what.arriving)
      begin_load(id, y);
  }

  void on_arrival(instance_id instance, result<void> there,
                  timestamp now) override {
    auto i = loaded_.find(instance);
    if (i == loaded_.end())
      return;
    auto& y = i->second;
    if (!there)
      y.flaw = there.failure();
    y.what.arriving = false;
    auto sequential = how_.steps == load_steps::sequential;
    if (y.loaded || (sequential && y.flaw))
      return finish_load(instance);
    move_on(now);
    if (sequential)
      begin_load(instance, y);
  }

  void unload(instance_id instance) override {
    if (auto i = loaded_.find(instance); i != loaded_.end())
      environment_.process->give_up(i->second.loader);
    loaded_.erase(instance);
  }

  void set_threads(instance_id instance, uint32_t threads) override {
    if (auto i = loaded_.find(instance); i != loaded_.end())
      i->second.what.threads = std::max(1u, threads);
  }

  bool slow_down(double factor, timestamp now) override {
    move_on(now);
    environment_.times_slower = factor;
    return true;
  }

  void execute(execution batch, timestamp now) override {
    move_on(now);
    waiting_.push_back(std::move(batch));
    start_waiting(now);
  }

  timestamp next_due() const override {
    auto due = far_future;
    for (auto& x : loading_)
      due = std::min(due, due_of(x));
    for (auto& x : running_)
      due = std::min(due, at_ + to_time(x.left * x.slower * pace()));
    return due;
  }

  void advance(timestamp now) override {
    move_on(now);
    auto loads = take_done(loading_);
    auto done = take_done(running_);
    start_waiting(now);
    for (auto& x : loads)
      finish_step(x);
    for (auto& x : done)
      listener_.on_executed({x.job.id, x.lane, outputs_of(x.job), x.started,
                             now, 0, now - x.started - to_time(x.lost)});
  }

private:
  /// Steps of a load: attach the claimed layers, wait for layers that other
  /// loads attach, send all layers to the device.
  enum class step : uint8_t { attach, wait, send };

  struct loading {
    instance_id instance;
    seconds_d left; ///< unused in step::wait
    step doing = step::send;
    timestamp until{}; ///< earliest end of step::wait
  };

  struct work {
    execution job;
    uint32_t lane;
    double rows;
    seconds_d left;    ///< remaining time alone on the device
    double slower = 1; ///< slowdown by the batches that run now
    timestamp started;
    seconds_d lost{0}; ///< to interference so far
  };

  /// A loaded copy and its known times on this device.
  struct copy {
    load_request what;
    curve execute;
    measured_times whole; ///< of the whole model
    seconds_d load{0};    ///< mean time of a full load
    seconds_d send{0};    ///< the part of `load` after attaching
    seconds_d took{0};
    timestamp begun{}; ///< start of its load
    host_process::loader loader = 0;
    bool is_forked = false;    ///< other loads had attached all of its layers
    std::optional<error> flaw; ///< why it cannot be emulated
    bool loaded = false;       ///< true while only its weights are missing, too
  };

  template <class T>
  static std::vector<T> take_done(std::vector<T>& xs) {
    std::vector<T> out;
    std::erase_if(xs, [&](T& x) {
      if (x.left > seconds_d{1e-9})
        return false;
      out.push_back(std::move(x));
      return true;
    });
    return out;
  }

  static nanoseconds to_time(seconds_d x) {
    return std::chrono::ceil<nanoseconds>(x);
  }

  double pace() const { return environment_.times_slower; }

  seconds_d varied(seconds_d mean) {
    if (how_.cv == 0 || !environment_.random)
      return mean;
    auto shape = 1 / (how_.cv * how_.cv);
    return mean * environment_.random->gamma(shape) / shape;
  }

  /// The model's profile, on all kinds of device; without points if there is
  /// none.
  result<profile> profile_of(const load_request& x) const {
    auto& info = x.content->info;
    if (!environment_.profiles || !environment_.profiles->has(info.name))
      return profile{};
    return environment_.profiles->find(info.name, layers_key(info.layers));
  }

  /// A metric of the layers of this load; empty when unknown.
  curve metric(const profile& known, const char* name,
               const load_request& x) const {
    return curve_of_layers(known, name, info_.kind, x.first_layer, x.last_layer,
                           x.content->info.layers.size());
  }

  void learn(copy& x) const {
    auto known = profile_of(x.what);
    if (!known) {
      x.flaw = known.failure();
      return;
    }
    x.execute = metric(*known, "execute_seconds", x.what);
    x.whole = {*known, info_.kind};
    auto times =
      load_times_of(*known, info_.kind, x.what.first_layer, x.what.last_layer,
                    x.what.content->info.layers.size());
    x.load = times.load ? seconds_d{*times.load}
                        : seconds_d{how_.load} * part_of(x.what);
    x.send = std::min(x.load, seconds_d{times.send.value_or(0)});
  }

  // -- loads ------------------------------------------------------------------

  timestamp due_of(const loading& x) const {
    return x.doing == step::wait ? std::max(x.until, at_ + nanoseconds{1us})
                                 : at_ + to_time(x.left * pace());
  }

  void begin_load(instance_id id, copy& x) {
    x.begun = at_;
    auto part = loaded_.find(x.what.extends_replica);
    // The layers of the replica that it extends are present.
    auto there = [&](seconds_d copy::*time) {
      return part == loaded_.end() ? seconds_d{0} : part->second.*time;
    };
    if (how_.attach == attach_mode::replica) {
      auto left = x.load - std::min(x.load, there(&copy::load));
      x.took = varied(left);
      return loading_.push_back({id, x.took});
    }
    x.send = varied(x.send - std::min(x.send, there(&copy::send)));
    if (how_.attach == attach_mode::never)
      return send(id, x);
    auto& process = *environment_.process;
    x.loader = process.add_loader();
    auto mine = process.claim(x.what.content, x.what.first_layer,
                              x.what.last_layer, x.loader);
    x.is_forked = mine.empty();
    if (mine.empty())
      return wait_for_others(id, x);
    attach(id, x, mine);
  }

  /// Attaches some of its layers; the time is proportional to their bytes.
  void attach(instance_id id, const copy& x,
              const std::vector<size_t>& layers) {
    auto& all = x.what.content->info.layers;
    double bytes = 0, some = 0;
    for (auto i = x.what.first_layer; i < x.what.last_layer; ++i)
      bytes += static_cast<double>(all[i].parameter_bytes);
    for (auto i : layers)
      some += static_cast<double>(all[i].parameter_bytes);
    auto part = bytes > 0 ? some / bytes : 1;
    loading_.push_back({id, varied((x.load - x.send) * part), step::attach});
    environment_.process->expect(x.loader, due_of(loading_.back()));
  }

  void wait_for_others(instance_id id, copy& x) {
    auto due = environment_.process->due(x.what.content, x.what.first_layer,
                                         x.what.last_layer, x.loader);
    if (!due)
      return send(id, x);
    loading_.push_back({id, seconds_d{1}, step::wait, *due});
  }

  void send(instance_id id, const copy& x) {
    auto fork = x.is_forked ? seconds_d{how_.fork} : seconds_d{0};
    loading_.push_back({id, fork + x.send, step::send});
  }

  void finish_step(const loading& x) {
    auto i = loaded_.find(x.instance);
    if (i == loaded_.end() || x.doing == step::send) {
      if (i != loaded_.end() && how_.attach != attach_mode::replica)
        i->second.took = at_ - i->second.begun;
      return finish_load(x.instance);
    }
    auto& y = i->second;
    if (x.doing == step::attach)
      environment_.process->attached(y.loader);
    // Another load may have given up layers that this one waits for.
    auto mine = environment_.process->claim(y.what.content, y.what.first_layer,
                                            y.what.last_layer, y.loader);
    if (mine.empty())
      wait_for_others(x.instance, y);
    else
      attach(x.instance, y, mine);
  }

  seconds_d time_of(const execution& x) {
    auto rows = static_cast<double>(rows_of(x));
    auto i = loaded_.find(x.instance);
    seconds_d out = how_.per_batch + how_.per_row * rows;
    if (i != loaded_.end()) {
      if (auto* known = times_at_share(i->second, x.share))
        return varied(seconds_d{known->at(rows)});
      auto* known = times_with_threads(i->second);
      out = known->empty() ? out * part_of(i->second.what)
                           : seconds_d{known->at(rows)};
    }
    if (x.share > 0 && x.share < 1)
      out *= std::pow(x.share, -how_.share_penalty);
    return varied(out);
  }

  /// Null: the share was not measured.
  static const curve* times_at_share(const copy& of, double share) {
    if (share <= 0 || part_of(of.what) < 1)
      return nullptr;
    auto* both = of.whole.execute(share, of.what.threads);
    return both != nullptr ? both : of.whole.execute(share, 1);
  }

  /// Times on the whole device; empty: unknown.
  static const curve* times_with_threads(const copy& of) {
    auto* measured = of.what.threads > 1 && part_of(of.what) == 1
                       ? of.whole.execute(0, of.what.threads)
                       : nullptr;
    return measured != nullptr ? measured : &of.execute;
  }

  /// Advances loads and running batches from at_ to now, with the slowdown by
  /// their neighbours.
  void move_on(timestamp now) {
    if (now <= at_)
      return;
    auto gained = seconds_d{now - at_} / pace();
    for (auto& x : loading_)
      if (x.doing == step::wait)
        x.left = seconds_d{now >= x.until ? 0 : 1};
      else
        x.left -= gained;
    for (auto& x : running_) {
      x.left -= gained / x.slower;
      x.lost += seconds_d{now - at_} * (1 - 1 / x.slower);
    }
    at_ = now;
  }

  /// Computes the slowdowns anew after the set of running batches has changed.
  void work_out_slowdown() {
    std::vector<running_batch> all;
    for (auto& x : running_)
      all.push_back(as_law_sees(x));
    for (size_t i = 0; i < running_.size(); ++i)
      running_[i].slower = law_->slowdown(all, i);
    take_measured_slowdowns(all);
  }

  /// Replaces the law's slowdowns by measured ones, if all batches are of one
  /// model, and concurrent batches of it were measured.
  void take_measured_slowdowns(const std::vector<running_batch>& all) {
    auto unlike = [&](const running_batch& x) {
      return x.model.empty() || x.model != all.front().model;
    };
    if (std::any_of(all.begin(), all.end(), unlike))
      return;
    for (auto& x : running_) {
      auto& of = loaded_.at(x.job.instance);
      if (of.whole.at_once().known() && part_of(of.what) == 1)
        x.slower =
          of.whole.at_once().slowdown(x.rows, static_cast<double>(all.size()));
    }
  }

  /// The law's view of a batch; valid until a copy is loaded or unloaded.
  running_batch as_law_sees(const work& x) const {
    auto i = loaded_.find(x.job.instance);
    if (i == loaded_.end())
      return {};
    auto& of = i->second;
    auto rows = x.rows;
    return {of.what.content->info.name, rows, x.job.share > 0 ? x.job.share : 1,
            [known = &of.whole, rows](std::string_view name) {
              return known->metric(name, rows);
            }};
  }

  bool lane_is_free(uint32_t lane) const {
    return std::none_of(running_.begin(), running_.end(),
                        [&](auto& x) { return x.lane == lane; });
  }

  /// Completes waiting batches that need not start, from the first on.
  void drop_vain(timestamp now) {
    for (; !waiting_.empty(); waiting_.pop_front()) {
      auto& next = waiting_.front();
      auto why = in_vain(next, now);
      if (!why)
        return;
      listener_.on_executed({next.id, 0, std::move(*why), now, now});
    }
  }

  void start_waiting(timestamp now) {
    for (uint32_t lane = 0; lane < info_.lanes; ++lane) {
      if (!lane_is_free(lane))
        continue;
      drop_vain(now);
      if (waiting_.empty())
        break;
      auto job = std::move(waiting_.front());
      waiting_.pop_front();
      auto time = time_of(job);
      auto rows = static_cast<double>(rows_of(job));
      running_.push_back({std::move(job), lane, rows, time, 1, now, {}});
      at_ = now;
    }
    if (info_.lanes > 1)
      work_out_slowdown();
  }

  static size_t rows_of(const tensor_list& item, int axis) {
    if (axis < 0 || item.empty())
      return 1;
    return static_cast<size_t>(item.front().extents[static_cast<size_t>(axis)]);
  }

  size_t rows_of(const execution& x) const {
    auto i = loaded_.find(x.instance);
    if (i == loaded_.end())
      return x.requests();
    if (!x.rows.empty())
      return std::accumulate(x.rows.begin(), x.rows.end(), size_t{0});
    size_t n = 0;
    for (auto& item : x.items)
      n += rows_of(item, i->second.what.content->info.signature.batch_axis);
    return n;
  }

  result<std::vector<tensor_list>> outputs_of(const execution& x) const {
    auto i = loaded_.find(x.instance);
    if (i == loaded_.end())
      return error{ec::unavailable, "the replica is unloaded"};
    auto& stage = i->second.what;
    auto& info = stage.content->info;
    auto all = rows_of(x);
    auto rows = x.rows;
    if (stage.last_layer != info.layers.size())
      rows = {all};
    else if (rows.empty())
      for (auto& item : x.items)
        rows.push_back(rows_of(item, info.signature.batch_axis));
    std::vector<tensor_list> out;
    for (auto n : rows) {
      auto zeros = zeros_across(info, stage.last_layer, n);
      if (!zeros)
        return zeros.failure();
      out.push_back(std::move(*zeros));
    }
    return out;
  }

  void finish_load(instance_id x) {
    auto i = loaded_.find(x);
    if (i == loaded_.end()) {
      listener_.on_loaded(x, error{ec::cancelled, "unloaded while loading"});
      return;
    }
    if (auto& flaw = i->second.flaw)
      return listener_.on_loaded(x, *flaw);
    i->second.loaded = true;
    if (i->second.what.arriving)
      return;
    load_report report;
    report.memory = {bytes_of_weights(i->second.what)};
    report.load = to_time(i->second.took);
    listener_.on_loaded(x, report);
  }

  device_info info_;
  emulation how_;
  device_listener& listener_;
  emulated_environment environment_;
  std::unique_ptr<contention_law> law_;
  std::map<instance_id, copy> loaded_;
  std::vector<loading> loading_;
  std::deque<execution> waiting_;
  std::vector<work> running_; // at most one per lane
  timestamp at_;              // running_ and loading_ are as of this time
};

} // namespace

std::unique_ptr<device> make_emulated_device(device_info info, emulation how,
                                             device_listener& listener,
                                             emulated_environment environment) {
  return std::make_unique<emulated_device>(std::move(info), std::move(how),
                                           listener, std::move(environment));
}

} // namespace millrace
