// SPDX-License-Identifier: Apache-2.0
#include "models/confined/confined_stage.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <vector>

#include "models/confined/arrival.hpp"
#include "models/confined/load_order.hpp"
#include "models/confined/loans.hpp"
#include "models/confined/node_lane.hpp"
#include "models/confined/run_end.hpp"
#include "models/confined/running_process.hpp"
#include "runtime/copies.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace::confined {

namespace {

/// Interval of checks while the process runs nothing.
constexpr auto look_seldom = 1s;

/// Connections that fit into one order.
constexpr uint32_t most_lanes = 200;

class stage_with_process : public confined_stage {
public:
  stage_with_process(process_source& source, stage_settings settings,
                     stage_events events)
    : source_(source),
      known_as_(name_of(settings)),
      settings_(std::move(settings)),
      events_(std::move(events)),
      lanes_(std::clamp(settings_.lanes, 1u, most_lanes)) {
    for (auto& x : lanes_)
      free_.add(x);
    if (!settings_.arriving)
      stage_with_process::on_arrival({});
    keeper_.emplace("confined");
    keeper_->post([this] { keep(); });
  }

  ~stage_with_process() override {
    stage_with_process::give_up();
    keeper_.reset();
  }

  void give_up() override {
    given_up_ = true;
    leave_process();
    stage_with_process::on_arrival({}); // ends all waits for weights
  }

  void on_arrival(result<void> there) override {
    arrival_->end(std::move(there));
  }

  void set_threads(uint32_t threads) override {
    threads_ = std::max(1u, threads);
    std::lock_guard guard{mutex_};
    if (process_)
      process_->expect_threads(number_, threads_of_process());
  }

  /// The model's author decides, so the worst case is assumed.
  bool depends_on_values() const override { return true; }

  result<tensor_list> run(const tensor_list& inputs, const run_limits& limits,
                          uint64_t* peak, output_room*) override {
    loans<node_lane>::loan mine{free_};
    ++runs_;
    std::shared_ptr<void> counted{nullptr, [this](void*) { --runs_; }};
    auto answer = try_on(*mine, inputs, limits, peak != nullptr);
    if (!answer)
      return answer.failure();
    auto outputs =
      (*mine).take_out(answer->tensors, answer->keeps == 0, settings_.memory);
    if (outputs) // limits the figure of an untrusted process
      count_copied(std::min<uint64_t>(answer->copied, bytes_of(*outputs)));
    if (peak != nullptr)
      *peak = answer->peak;
    return outputs;
  }

private:
  // -- life cycle, on the thread of keeper_ -----------------------------------

  void keep() {
    auto times = load();
    auto failed = !times;
    if (failed)
      leave_process();
    if (given_up_)
      return;
    is_loaded_ = !failed;
    events_.loaded(std::move(times));
    if (failed)
      return;
    load_answer never;
    process_watch watch{*process_};
    while (receive_record(life_line_, never, steady_now() + look_seldom)
           == received::nothing)
      if (auto why = watch.look(); !why.empty())
        return lose(why);
    if (!given_up_)
      lose(by_itself);
  }

  result<load_times> load() {
    auto bundle = make_load_order(settings_);
    if (!bundle)
      return bundle.failure();
    auto mine = source_.enter(known_as_, bundle->what, threads_of_process());
    if (!mine)
      return mine.failure();
    {
      std::lock_guard guard{mutex_};
      process_ = std::move(mine->process);
      life_line_ = std::move(mine->life_line);
      number_ = mine->number;
      process_->expect_threads(number_, threads_of_process());
    }
    if (given_up_) // given up before there was a process to leave
      leave_process();
    if (auto done = order_load(*bundle); !done)
      return done.failure();
    // Weights may take long to arrive; the process has a time limit.
    auto loaded = hear_of_load(settings_.load_limit);
    if (!loaded)
      return loaded.failure();
    if (auto there = hand_on_parts(); !there)
      return there.failure();
    life_order order;
    order.what = life_order::warm_up;
    tell(order);
    auto warm = hear_of_load(settings_.load_limit - loaded->took);
    if (!warm)
      return warm.failure();
    // The process's figure is bounded by the measured time.
    auto believed = [&](int64_t said, nanoseconds took) {
      return std::clamp(nanoseconds{said}, 0ns, took);
    };
    auto took = loaded->took + warm->took;
    // A load at low priority waits for other work, which is no cost of the
    // load.
    load_cost_ =
      settings_.in_background ? believed(warm->answer.cpu_ns, took) : took;
    return load_times{believed(loaded->answer.load_ns, loaded->took),
                      believed(warm->answer.warm_up_ns, warm->took),
                      {warm->answer.gpu_bytes},
                      text_of(warm->answer.text)};
  }

  /// Waits until the weights are present. For a GPU, reports each part to the
  /// process, which copies it.
  result<void> hand_on_parts() {
    auto& x = *settings_.content;
    if (settings_.gpu && settings_.arriving)
      hand_on_weights(x, settings_.first_layer, settings_.last_layer,
                      [weak = std::weak_ptr{arrival_}](const_bytes part) {
                        if (auto to = weak.lock())
                          to->add(part);
                      });
    process_watch watch{*process_};
    std::optional<const_bytes> part;
    auto since = steady_now(); // when `part` arrived
    for (auto next_look = since + look_again;;) {
      if (!part) {
        part = arrival_->next(next_look);
        since = steady_now();
      }
      if (auto how = arrival_->how())
        return *how;
      if (part && tell_of(*part, next_look)) {
        part.reset();
        if (steady_now() < next_look)
          continue;
      }
      // The process sends nothing here, except an error.
      if (auto word = hear(watch, 0ns); !word)
        return word.failure();
      if (part && steady_now() - since > settings_.load_limit)
        return loads_too_long();
      next_look = steady_now() + look_again;
    }
  }

  /// Reports a part. False when the process has ended, or does not read until
  /// `until`.
  bool tell_of(const_bytes part, timestamp until) {
    auto from = settings_.content->weights_file->content().data();
    life_order order;
    order.what = life_order::part;
    order.part_begin = static_cast<uint64_t>(part.data() - from);
    order.part_bytes = part.size();
    return send_record(life_line_, order, {}, until);
  }

  struct heard {
    load_answer answer;
    nanoseconds took;
  };

  /// The process's next answer about its load, within `longest`.
  result<heard> hear_of_load(nanoseconds longest) {
    process_watch watch{*process_};
    auto out = hear(watch, longest);
    if (!out)
      return out.failure();
    return *out ? result<heard>{std::move(**out)} : loads_too_long();
  }

  /// The same, or nothing.
  result<std::optional<heard>> hear(process_watch& watch, nanoseconds longest) {
    heard out;
    auto begin = steady_now();
    auto came = watch.hear(life_line_, out.answer, begin + longest);
    if (came == received::ended || !watch.why().empty())
      return unloaded(watch.why());
    if (came == received::nothing)
      return std::optional<heard>{};
    if (!out.answer.loaded && out.answer.gpu_is_lost)
      return unloaded("cannot use its GPU: " + text_of(out.answer.text));
    if (!out.answer.loaded)
      return error{ec::internal, settings_.content->directory + ": "
                                   + text_of(out.answer.text)};
    out.took = steady_now() - begin;
    return std::optional{std::move(out)};
  }

  /// The error of a load during which the process ended.
  error unloaded(std::string_view why) {
    if (given_up_)
      return ended_before();
    auto x = end_process(why, false);
    if (why == by_itself)
      x.text += " while it loaded the model";
    return {x.code, std::move(x.text)};
  }

  /// A shared process goes on for its other stages; the next load of this stage
  /// gets a process of its own.
  error loads_too_long() {
    auto why =
      "did not load it within " + format_duration(to_us(settings_.load_limit));
    if (!process_->is_shared())
      return unloaded(why + ", and was ended");
    source_.suspect(known_as_);
    process_->close(); // it may be at fault itself
    return {ec::unavailable, "the process that the model shares " + why};
  }

  result<void> order_load(load_order& order) {
    std::vector<file_descriptor> ends;
    for (auto& l : lanes_) {
      auto pair = make_connection();
      if (!pair)
        return pair.failure();
      l.connection = std::move(pair->first);
      ends.push_back(std::move(pair->second));
      order.files.push_back(ends.back().get());
    }
    order.what.lanes = static_cast<uint32_t>(lanes_.size());
    tell(order.what, order.files); // on failure, hear() returns the reason
    return {};
  }

  /// Sends an order. False when the process has ended, or has read nothing for
  /// load_limit.
  bool tell(const life_order& what, std::span<const int> files = {}) {
    return send_record(life_line_, what, files,
                       steady_now() + settings_.load_limit);
  }

  /// Threads of each lane's runs, one per lane, and two that load.
  size_t threads_of_process() const {
    return lanes_.size() * (threads_ + size_t{1}) + 2;
  }

  /// Leaves the process, which ends unless other stages share it.
  void leave_process() {
    {
      std::lock_guard guard{mutex_};
      if (!process_ || std::exchange(has_left_, true))
        return;
      // In a shared process, the stage ends itself.
      ::shutdown(life_line_.get(), SHUT_RDWR);
    }
    process_->leave(number_);
  }

  /// Ends the process, if it has not ended.
  process_end end_process(std::string_view why, bool known) {
    auto out = process_->end(why, known);
    if (!out.known && (runs_ > 0 || !is_loaded_))
      source_.suspect(known_as_);
    return out;
  }

  /// Why a stage's process was ended.
  enum class cause : uint8_t { unclear, stage, time };

  /// Marks the process as lost; the first caller sets the reason. Ends the
  /// process before this function allocates memory.
  void lose(std::string_view why, cause of = cause::unclear,
            ec code = ec::unavailable) {
    std::call_once(lost_once_, [&] {
      auto x = end_process(why, of != cause::unclear);
      lost_text_ = x.text;
      lost_for_time_ = of == cause::time;
      is_innocent_ =
        process_->is_shared() && x.known && x.code == ec::cancelled;
      if (!given_up_)
        events_.lost(
          error{x.code == ec::cancelled ? x.code : code, std::move(x.text)});
      lost_ = true;
    });
  }

  // -- runs, on a thread of the device ----------------------------------------

  static error ended_before() {
    return {ec::unavailable, "the model's process has ended"};
  }

  /// Out of memory, the answer of the process stays unread and would be taken
  /// for the answer to the next order: the process is lost.
  result<lane_answer> try_on(node_lane& on, const tensor_list& inputs,
                             const run_limits& limits, bool metered) {
    try {
      return run_on(on, inputs, limits, metered);
    } catch (const std::bad_alloc&) {
      lose("returned more than the node has memory for, and was ended",
           cause::stage);
      return ended_before();
    }
  }

  result<lane_answer> run_on(node_lane& on, const tensor_list& inputs,
                             const run_limits& limits, bool metered) {
    if (lost_)
      return ended_before();
    lane_order order;
    order.meter = metered;
    order.threads = threads_;
    order.arena = on.slot->number;
    order.tensors = static_cast<uint32_t>(inputs.size());
    if (!on.memory().put(inputs)) {
      // Twice the size, for the outputs, if the limit allows it.
      auto bytes = arena::bytes_for(inputs);
      if (2 * bytes <= largest_arena)
        bytes *= 2;
      if (auto made = on.widen(bytes); !made)
        return made.failure();
      if (!on.memory().put(inputs))
        return error{ec::too_large, "more than "
                                      + std::to_string(arena::most_tensors)
                                      + " inputs"};
      order.room = on.memory().size();
    }
    if (!on.send(order)) {
      lose(by_itself);
      return ended_before();
    }
    auto started = steady_now();
    auto end = end_of_run(limits, started, load_cost_, settings_.run_limit);
    lane_answer answer;
    if (!receive(on, answer, end))
      return died(end);
    if (answer.what == lane_answer::needs_room) {
      auto made = on.widen(answer.room);
      if (!made) { // the process frees the outputs at its next order
        on.memory() = arena{};
        return made.failure();
      }
      auto peak = answer.peak;
      order = {lane_order::fetch, 0, on.slot->number, 0, on.memory().size()};
      if (!on.send(order))
        lose(by_itself);
      if (lost_ || !receive(on, answer, end))
        return died(end);
      answer.peak = peak;
    }
    if (settings_.gpu && answer.what == lane_answer::gpu_is_lost) {
      lose("can no longer use its GPU: " + text_of(answer.text));
      return died(end);
    }
    if (answer.what != lane_answer::done) {
      // The process may lack this arena, or keep it.
      if (order.room != 0 || answer.keeps != 0)
        on.memory() = arena{};
      auto no_memory = settings_.gpu && answer.what == lane_answer::no_memory;
      return error{no_memory ? ec::overloaded : ec::internal,
                   text_of(answer.text)};
    }
    return answer;
  }

  /// The error of a run, after lose(). A run within its time limits is not to
  /// blame when the process was ended for a run of another lane.
  error died(const run_end& mine) const {
    auto innocent =
      is_innocent_ || (lost_for_time_ && !mine.is_over(steady_now()));
    return {innocent ? ec::cancelled : ec::poison,
            lost_text_ + ", running this"};
  }

  /// Receives the answer to a run. False when the process is lost.
  bool receive(node_lane& on, lane_answer& answer, const run_end& end) {
    for (process_watch watch{*process_};;) {
      auto next = std::min(end.at, steady_now() + look_again);
      auto came = watch.hear(on.connection, answer, next);
      if (came == received::record)
        return true;
      if (came == received::ended || !watch.why().empty()) {
        lose(watch.why());
        return false;
      }
      if (end.is_over(steady_now())) {
        lose(end.unwanted.stop_requested()
               ? "took too long for a batch that no request waits for, and was"
                 " ended"
               : "took too long for a batch, and was ended",
             cause::time, end.blame);
        return false;
      }
    }
  }

  process_source& source_;
  const std::string known_as_; ///< name in source_
  stage_settings settings_;
  stage_events events_;
  std::vector<node_lane> lanes_;
  loans<node_lane> free_; ///< of lanes_
  std::mutex mutex_;
  /// Set once, as the next two; guarded.
  std::shared_ptr<running_process> process_;
  file_descriptor life_line_; ///< set before it is loaded
  /// Likewise; number within its process.
  uint64_t number_ = 0;
  bool has_left_ = false;                                          ///< guarded
  std::atomic<uint32_t> threads_{std::max(1u, settings_.threads)}; ///< of a run
  std::atomic<size_t> runs_{0};
  std::atomic<bool> is_loaded_{false};
  nanoseconds load_cost_{0}; ///< set once, when it is loaded
  std::atomic<bool> lost_{false};
  std::atomic<bool> given_up_{false};
  std::shared_ptr<arrival> arrival_ = std::make_shared<arrival>();
  std::once_flag lost_once_;
  std::string lost_text_; ///< set once, under lost_once_
  bool lost_for_time_ = false;
  bool is_innocent_ = false; ///< another stage is known to be the cause
  std::optional<worker_thread> keeper_;
};

} // namespace

std::unique_ptr<confined_stage> make_confined_stage(process_source& source,
                                                    stage_settings settings,
                                                    stage_events events) {
  return std::make_unique<stage_with_process>(source, std::move(settings),
                                              std::move(events));
}

} // namespace millrace::confined
