// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "models/backend/warm_up.hpp"
#include "models/device/batch_run.hpp"
#include "models/device/crash_journal.hpp"
#include "models/device/instance.hpp"
#include "models/device/lane_slowdown.hpp"
#include "models/device/lanes.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

/// Interval between two checks for idle lanes before a postponed warm-up, and
/// delay of the first check: the request that caused the start comes first.
constexpr milliseconds look_for_time = 250ms;

/// Least time of a pass of a model that was not warmed up, even after its
/// deadline. Otherwise each first pass would be ended, and the model would
/// never become warm.
constexpr nanoseconds first_pass = 2s;

class backend_device : public device {
public:
  backend_device(device_info info, backend_settings settings,
                 device_listener& listener)
    : info_(std::move(info)),
      settings_(settings),
      template_(settings.gpu.has_value()),
      processes_(template_, settings.has_one_process()),
      listener_(listener),
      slowdown_(settings.pace),
      lanes_(info_.id, info_.lanes,
             [this](work x, uint32_t on) { run(std::move(x), on); }),
      warmer_(info_.id + ".warm"),
      loader_(info_.id + ".load"),
      reaper_(info_.id + ".reap") {}

  /// Does the slow part of a start, which may fail.
  result<void> open() {
    if (settings_.isolation != isolation_mode::thread)
      return template_.start();
    return open_backend();
  }

  ~backend_device() override {
    slowdown_.stop();
    {
      std::lock_guard guard{gate_->mutex};
      gate_->open = false;
    }
    for (auto& [id, x] : instances_) // so that no lane waits for a process
      if (x->process != nullptr)
        x->process->give_up();
  }

  void load(load_request request, timestamp) override {
    request.skip_warm_up = request.skip_warm_up && !settings_.gpu;
    auto slot = std::make_shared<instance>();
    slot->content = request.content;
    slot->is_last = request.last_layer == request.content->info.layers.size();
    slot->skip_warm_up = request.skip_warm_up;
    slot->threads = request.threads;
    slot->pace = paces_.of(request.content->directory, request.first_layer,
                           request.last_layer);
    instances_[request.instance] = slot;
    // Some errors of a GPU leave the whole process unable to use it.
    auto in_threads = settings_.isolation == isolation_mode::thread
                      || (settings_.isolation == isolation_mode::automatic
                          && request.trusted && !settings_.gpu);
    auto harmless = check_crashes(settings_.crashes, request.content->info);
    if (!harmless && settings_.isolation == isolation_mode::thread)
      return listener_.on_loaded(request.instance, harmless.failure());
    if (!in_threads || !harmless)
      return load_confined(request, slot);
    slot->loader =
      request.extends_replica == 0 ? &loader_ : &background_loader();
    slot->loader->post(
      [this, x = std::move(request), slot] { load_now(x, slot); });
  }

  void on_arrival(instance_id instance, result<void> there,
                  timestamp) override {
    auto i = instances_.find(instance);
    if (i == instances_.end())
      return;
    auto& slot = i->second;
    if (slot->process != nullptr)
      return slot->process->on_arrival(std::move(there));
    slot->loader->post([this, slot, there = std::move(there)] {
      if (!slot->attached) // the load has failed
        return;
      auto [request, report] = std::move(*slot->attached);
      slot->attached.reset();
      if (!there)
        return listener_.on_loaded(request.instance, there.failure());
      warm_up_loaded(request, slot, report);
    });
  }

  void unload(instance_id instance) override {
    auto i = instances_.find(instance);
    if (i == instances_.end())
      return;
    // To end a process takes time, and must not block an actor's thread.
    if (i->second->process != nullptr)
      reaper_.post([slot = i->second] { slot->process->give_up(); });
    instances_.erase(i);
  }

  void set_threads(instance_id instance, uint32_t threads) override {
    auto i = instances_.find(instance);
    if (i == instances_.end())
      return;
    i->second->threads = std::max(1u, threads);
    if (i->second->process != nullptr)
      i->second->process->set_threads(threads);
  }

  void execute(execution batch, timestamp) override {
    auto i = instances_.find(batch.instance);
    if (i == instances_.end()) {
      listener_.on_executed({batch.id, 0,
                             error{ec::unavailable, "the replica is unloaded"},
                             steady_now(), steady_now()});
      return;
    }
    auto& slot = *i->second;
    auto idle = lanes_.without_work();
    if (idle && !slowdown_.active() && !slot.depends_on_values
        && slot.of(batch.requests()).expected(bytes_of(batch.items)))
      return run({std::move(batch), i->second}, *idle);
    lanes_.add({std::move(batch), i->second});
  }

private:
  struct work {
    execution what;
    instance_ptr slot;
  };

  /// An instance that is ready and not warmed up yet.
  struct cold_instance {
    load_request what;
    std::weak_ptr<instance> slot;
  };

  /// Runs a batch on this thread and reports to the listener.
  void run(work job, uint32_t lane) {
    auto& [x, slot] = job;
    if (slot->process == nullptr)
      use_threads(slot->threads);
    auto bytes = bytes_of(x.items);
    uint64_t peak = 0;
    auto started = steady_now();
    auto outputs = run_requests({*slot->stage, slot->content->info.signature,
                                 *slot->pace, slot->fits, slot->is_last,
                                 slot->skip_warm_up ? first_pass : 0ns},
                                x, peak);
    slowdown_.hold(steady_now() - started);
    auto ended = steady_now();
    if (outputs) {
      slot->of(x.requests()).learn(ended - started, bytes);
      // A run past its deadline must not raise the limit of later runs.
      if (ended <= x.until)
        slot->pace->learn(ended - started, bytes);
    }
    if (!outputs && slot->process == nullptr
        && is_gpu_lost(outputs.failure())) {
      listener_.on_lost(x.instance, outputs.failure());
      lose_gpu(outputs.failure());
      outputs = error{ec::poison, outputs.failure().text};
    }
    x.items.clear(); // frees the inputs before the caller gets the outputs
    slot.reset();
    listener_.on_executed(
      {x.id, lane, std::move(outputs), started, ended, peak});
  }

  /// Whether an error of a run in threads means that the GPU is unusable. The
  /// last run there is taken for the cause.
  bool is_gpu_lost(const error& why) const {
    return settings_.gpu && why.code == ec::unavailable;
  }

  /// Reports a failed load in threads.
  void fail_load(const load_request& x, const error& why) {
    listener_.on_loaded(x.instance, why);
    if (is_gpu_lost(why))
      lose_gpu(why);
  }

  void lose_gpu(const error& why) {
    listener_.on_usable(
      error{why.code, "the node can use it no more, until it is started again: "
                        + why.text});
  }

  /// Device memory of a load's parameters.
  byte_count parameters_of(const load_request& x) const {
    auto elsewhere =
      settings_.gpu && settings_.gpu->parameters == gpu_parameters::host;
    return {elsewhere ? 0
                      : weight_bytes(*x.content, x.first_layer, x.last_layer)};
  }

  /// Makes this thread run models with `n` threads.
  void use_threads(uint32_t n) {
    thread_local uint32_t used = 0;
    if (used != n)
      runner_->enter_thread(static_cast<int>(n));
    used = n;
  }

  /// Opens the backend; only the first call has an effect.
  result<void> open_backend() {
    std::lock_guard guard{opening_};
    if (runner_)
      return {};
    auto found = torch_backend(code_trust::none);
    if (!found)
      return found.failure();
    if (settings_.gpu)
      if (auto able = gpus_of(**found); !able)
        return able.failure();
    runner_ = std::move(*found);
    return {};
  }

  /// The place of a replica on the GPU; none on processors.
  std::optional<gpu_place> place_of(const load_request& x) const {
    auto out = settings_.gpu;
    if (out)
      out->share = 100 * x.share;
    return out;
  }

  worker_thread& background_loader() {
    if (!background_)
      background_.emplace(info_.id + ".fill", thread_priority::least);
    return *background_;
  }

  void load_confined(const load_request& x, const instance_ptr& slot) {
    auto id = x.instance;
    auto aside = x.extends_replica != 0;
    confined::stage_settings settings{x.content,
                                      x.trusted,
                                      x.first_layer,
                                      x.last_layer,
                                      x.skip_warm_up ? 0 : x.max_batch,
                                      x.threads,
                                      lanes_.count()
                                        + (x.skip_warm_up ? 1u : 0u),
                                      settings_.process_memory,
                                      settings_.load_limit * (aside ? 20 : 1),
                                      settings_.run_limit,
                                      aside,
                                      place_of(x),
                                      x.arriving};
    auto memory = parameters_of(x);
    auto row_bytes = row_bytes_of(x);
    auto stage = confined::make_confined_stage(
      processes_, std::move(settings),
      {[this, id, memory, row_bytes, aside, pace = slot->pace,
        cold = cold_instance{x, slot}](auto times) {
         if (!times)
           return listener_.on_loaded(id, std::move(times.failure()));
         if (!times->warm_up_error.empty())
           log_warm_up_failed(cold.what.content->info, info_.id,
                              times->warm_up_error);
         // A warm-up has at least two passes, so half of it bounds the time of
         // a row; at low priority it includes waits and gives no estimate.
         auto is_cold = cold.what.skip_warm_up;
         if (!aside && !is_cold && pace->expected(row_bytes) == 0ns)
           pace->learn(times->warm_up / 2, row_bytes);
         // The process's GPU memory is bounded by the device's memory.
         auto taken = settings_.gpu ? times->gpu_memory : byte_count{};
         if (info_.memory.value > 0)
           taken = std::min(taken, info_.memory);
         listener_.on_loaded(id,
                             load_report{std::max(memory, taken), times->load,
                                         is_cold ? 0ns : times->warm_up, true});
         if (is_cold)
           warm_up_later(cold);
       },
       [this, id](error why) { listener_.on_lost(id, std::move(why)); }});
    std::lock_guard guard{gate_->mutex}; // warm_up_later may read the slot soon
    slot->process = stage.get();
    slot->stage = std::move(stage);
  }

  /// Loads in threads of the node, on a loader's thread. Lanes see its writes,
  /// for they get their first job for this instance from it.
  void load_now(const load_request& x, const instance_ptr& slot) {
    if (auto done = open_backend(); !done)
      return listener_.on_loaded(x.instance, done.failure());
    use_threads(x.threads);
    auto begin = steady_now();
    // The plugin is loaded: this cannot fail.
    auto loader =
      torch_backend(x.trusted ? code_trust::full : code_trust::none);
    auto name = name_in_journal(x.content->info);
    auto stage = [&] {
      running_model now{name};
      return (*loader)->load(x.content, x.first_layer, x.last_layer,
                             place_of(x));
    }();
    if (!stage)
      return fail_load(x, stage.failure());
    slot->stage = noted_stage(std::move(*stage), std::move(name));
    slot->depends_on_values = slot->stage->depends_on_values();
    load_report report;
    report.memory = parameters_of(x);
    report.load = steady_now() - begin;
    if (x.arriving) {
      slot->attached = {x, report};
      if (settings_.gpu)
        copy_as_it_comes(x, slot);
    } else
      warm_up_loaded(x, slot, report);
  }

  /// Copies arriving parts to the GPU. A failure recurs when all are present.
  void copy_as_it_comes(const load_request& x, const instance_ptr& slot) {
    hand_on_weights(
      *x.content, x.first_layer, x.last_layer,
      [weak = std::weak_ptr{slot}, gate = gate_](const_bytes part) {
        std::lock_guard guard{gate->mutex};
        auto of = weak.lock();
        if (gate->open && of)
          of->loader->post(
            [of, part] { static_cast<void>(of->stage->arrive(part)); });
      });
  }

  void warm_up_loaded(const load_request& x, const instance_ptr& slot,
                      load_report report) {
    auto begin = steady_now();
    if (auto done = slot->stage->arrive(); !done)
      return fail_load(x, done.failure());
    report.load += steady_now() - begin;
    if (x.skip_warm_up) {
      report.memory = std::max(report.memory, slot->stage->memory());
      listener_.on_loaded(x.instance, report);
      return warm_up_later({x, slot});
    }
    use_threads(x.threads);
    x.extends_replica == 0
      ? warm_up_lanes(x, slot, std::make_shared<load_report>(report))
      : warm_up_here(x, *slot, report);
  }

  result<void> warm_up_one(const load_request& x, instance& slot) {
    warm_up_options how{x.first_layer, x.last_layer, x.max_batch, short_alone,
                        steady_now};
    how.tell = [&](size_t rows, size_t bytes, nanoseconds took) {
      slot.of(rows).learn(took, bytes);
    };
    how.failed = [&](const error& why) {
      log_warm_up_failed(slot.content->info, info_.id, why.text);
    };
    if (x.skip_warm_up) {
      how.limit = settings_.load_limit;
      how.is_over = [this] { return lanes_.have_work(); };
    }
    return warm_up(*slot.stage, slot.content->info, how);
  }

  /// Warms an instance up when no lane has work. A process uses its additional
  /// lane, so other work is not delayed; in threads all lanes of the device run
  /// it, for each has first-call costs. Any thread.
  void warm_up_later(cold_instance x) {
    std::lock_guard guard{gate_->mutex};
    if (gate_->open)
      loader_.post_after(look_for_time, [this, x = std::move(x)]() mutable {
        auto where = where_of(x);
        if (where == place::gone)
          return;
        if (lanes_.have_work() || where == place::coming)
          return warm_up_later(std::move(x));
        if (where == place::process)
          return warmer_.post([this, x = std::move(x)] { warm_up_cold(x); });
        for (uint32_t i = 0; i < lanes_.count(); ++i)
          lanes_.post(i, [this, x] { warm_up_cold(x); });
      });
  }

  enum class place : uint8_t { gone, coming, process, threads };

  place where_of(const cold_instance& x) const {
    auto slot = x.slot.lock();
    if (!slot)
      return place::gone;
    std::lock_guard guard{gate_->mutex};
    if (!slot->stage)
      return place::coming;
    return slot->process != nullptr ? place::process : place::threads;
  }

  void warm_up_cold(const cold_instance& x) {
    auto slot = x.slot.lock();
    if (!slot)
      return;
    if (slot->process == nullptr)
      use_threads(slot->threads);
    auto begin = steady_now();
    auto done = warm_up_one(x.what, *slot);
    // At least one pass ran, so this bounds the time of a row.
    auto bytes = row_bytes_of(x.what);
    if (done && slot->pace->expected(bytes) == 0ns)
      slot->pace->learn(steady_now() - begin, bytes);
    // If the process ended, confined_stage reports that. Memory may suffice at
    // the next attempt.
    if (!done && done.failure().code == ec::internal)
      listener_.on_lost(x.what.instance,
                        {ec::unavailable, "warm-up: " + done.failure().text});
  }

  /// Warms up a replica that extends another, on this thread, so that the lanes
  /// stay free: they pay the rest of the first-call costs in their first runs.
  void warm_up_here(const load_request& x, instance& slot, load_report report) {
    auto begin = steady_now();
    auto done = warm_up_one(x, slot);
    report.warm_up = steady_now() - begin;
    if (!done)
      return fail_load(x, done.failure());
    listener_.on_loaded(x.instance, report);
  }

  /// Warms up on every lane; the last lane reports.
  void warm_up_lanes(const load_request& x, const instance_ptr& slot,
                     const std::shared_ptr<load_report>& report) {
    struct progress {
      std::atomic<size_t> left;
      std::atomic<bool> failed{false};
    };
    auto state = std::make_shared<progress>();
    state->left = lanes_.count();
    auto begin = steady_now();
    for (uint32_t i = 0; i < lanes_.count(); ++i) {
      lanes_.post(i, [this, x, slot, report, state, begin] {
        use_threads(slot->threads);
        auto done = warm_up_one(x, *slot);
        if (!done && !state->failed.exchange(true))
          fail_load(x, done.failure());
        if (--state->left > 0 || state->failed)
          return;
        report->memory.value =
          std::max(report->memory.value, slot->stage->memory().value);
        report->warm_up = steady_now() - begin;
        listener_.on_loaded(x.instance, *report);
      });
    }
  }

  /// Guards callbacks that may run after the device has ended.
  struct gate {
    std::mutex mutex;
    bool open = true; ///< guarded
  };

  device_info info_;
  backend_settings settings_;
  std::shared_ptr<gate> gate_ = std::make_shared<gate>();
  std::mutex opening_;
  std::shared_ptr<backend> runner_; ///< set by the first load in threads
  confined::template_process template_;
  confined::process_source processes_;
  device_listener& listener_;
  std::map<instance_id, instance_ptr> instances_;
  pace_book paces_;
  lane_slowdown slowdown_;
  lanes<work> lanes_;
  worker_thread warmer_; ///< waits for processes during later warm-ups
  worker_thread loader_; // destroyed before the lanes, as are the next two:
                         // they post to lanes
  std::optional<worker_thread> background_; ///< for loads at low priority
  worker_thread reaper_;                    ///< ends processes
};

} // namespace

result<std::unique_ptr<device>> make_backend_device(device_info info,
                                                    backend_settings settings,
                                                    device_listener& listener) {
  auto out =
    std::make_unique<backend_device>(std::move(info), settings, listener);
  if (auto done = out->open(); !done)
    return done.failure();
  return std::unique_ptr<device>{std::move(out)};
}

} // namespace millrace
