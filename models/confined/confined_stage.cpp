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

/// Of a process that nothing runs in.
constexpr auto look_seldom = 1s;

/// So many connections fit into one order.
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
    stage_with_process::on_arrival({}); // nobody is to wait for it
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

  /// Whoever wrote the model decides.
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
    if (outputs) // it says no more than can be
      count_copied(std::min<uint64_t>(answer->copied, bytes_of(*outputs)));
    if (peak != nullptr)
      *peak = answer->peak;
    return outputs;
  }

private:
  // -- its life, on the keeper's thread ---------------------------------------

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
    if (given_up_) // while there was nothing to leave
      leave_process();
    if (auto done = order_load(*bundle); !done)
      return done.failure();
    // A model that is yet to come may take its time; its process may not.
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
    auto believed = [&](int64_t said, nanoseconds took) { // no more than can be
      return std::clamp(nanoseconds{said}, 0ns, took);
    };
    auto took = loaded->took + warm->took;
    // In the background it waited for all else: that is not what it costs.
    load_cost_ =
      settings_.in_background ? believed(warm->answer.cpu_ns, took) : took;
    return load_times{believed(loaded->answer.load_ns, loaded->took),
                      believed(warm->answer.warm_up_ns, warm->took),
                      {warm->answer.gpu_bytes},
                      text_of(warm->answer.text)};
  }

  /// Waits until the weights are there. A GPU's process copies them as they
  /// come.
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
    auto since = steady_now(); // when that part came
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
      // It has nothing to say, unless it cannot go on.
      if (auto word = hear(watch, 0ns); !word)
        return word.failure();
      if (part && steady_now() - since > settings_.load_limit)
        return loads_too_long();
      next_look = steady_now() + look_again;
    }
  }

  /// False when it has ended, or does not listen until then.
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

  /// The process's next word on its load, within so long.
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

  /// Of a load that its process has not survived.
  error unloaded(std::string_view why) {
    if (given_up_)
      return ended_before();
    auto x = end_process(why, false);
    if (why == by_itself)
      x.text += " while it loaded the model";
    return {x.code, std::move(x.text)};
  }

  /// Where others are in the process it stays there for their sake, and the
  /// next time it is elsewhere.
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
    tell(order.what, order.files); // else it says why not
    return {};
  }

  /// False when it has ended, or has not listened for as long as a load may
  /// take.
  bool tell(const life_order& what, std::span<const int> files = {}) {
    return send_record(life_line_, what, files,
                       steady_now() + settings_.load_limit);
  }

  /// Those of each lane's runs, the lanes, and two that load.
  size_t threads_of_process() const {
    return lanes_.size() * (threads_ + size_t{1}) + 2;
  }

  /// Which ends, unless others share it.
  void leave_process() {
    {
      std::lock_guard guard{mutex_};
      if (!process_ || std::exchange(has_left_, true))
        return;
      ::shutdown(life_line_.get(), SHUT_RDWR); // where it is shared
    }
    process_->leave(number_);
  }

  /// Ends its process, for whatever it did, if it has not ended.
  process_end end_process(std::string_view why, bool known) {
    auto out = process_->end(why, known);
    if (!out.known && (runs_ > 0 || !is_loaded_))
      source_.suspect(known_as_);
    return out;
  }

  /// What of a stage was too much for its process.
  enum class cause : uint8_t { unclear, stage, time };

  /// Its process is of no more use; whoever finds that out first says why. Ends
  /// it before it asks for any memory.
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

  // -- runs, on a thread of the device's --------------------------------------

  static error ended_before() {
    return {ec::unavailable, "the model's process has ended"};
  }

  /// What a process says that was not listened to for want of memory would be
  /// taken for the answer to the next order.
  result<lane_answer> try_on(node_lane& on, const tensor_list& inputs,
                             const run_limits& limits, bool metered) {
    try {
      return run_on(on, inputs, limits, metered);
    } catch (const std::bad_alloc&) {
      lose("gave what there was no memory for, and was ended", cause::stage);
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
      // As much again for what comes out, if there may be so much.
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
      if (!made) { // the process lets go of the outputs with its next order
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
      lose("can use its GPU no more: " + text_of(answer.text));
      return died(end);
    }
    if (answer.what != lane_answer::done) {
      if (order.room != 0 || answer.keeps != 0) // it may not have that, or has
        on.memory() = arena{};
      auto no_memory = settings_.gpu && answer.what == lane_answer::no_memory;
      return error{no_memory ? ec::overloaded : ec::internal,
                   text_of(answer.text)};
    }
    return answer;
  }

  /// To be said after lose() only. A run in whose lane nothing took too long is
  /// not to blame for that something did in another.
  error died(const run_end& mine) const {
    auto innocent =
      is_innocent_ || (lost_for_time_ && !mine.is_over(steady_now()));
    return {innocent ? ec::cancelled : ec::poison,
            lost_text_ + ", running this"};
  }

  /// False when the process is lost.
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
               ? "took too long for what nobody waits for any more, and was"
                 " ended"
               : "took too long for what it ran, and was ended",
             cause::time, end.blame);
        return false;
      }
    }
  }

  process_source& source_;
  const std::string known_as_; ///< to that
  stage_settings settings_;
  stage_events events_;
  std::vector<node_lane> lanes_;
  loans<node_lane> free_; ///< of these
  std::mutex mutex_;
  std::shared_ptr<running_process> process_; ///< set once, as the next; guarded
  file_descriptor life_line_;                ///< before it is loaded
  uint64_t number_ = 0;                      ///< likewise; in its process
  bool has_left_ = false;                    ///< guarded
  std::atomic<uint32_t> threads_{std::max(1u, settings_.threads)}; ///< of a run
  std::atomic<size_t> runs_{0};
  std::atomic<bool> is_loaded_{false};
  nanoseconds load_cost_{0}; ///< set once, when it is loaded
  std::atomic<bool> lost_{false};
  std::atomic<bool> given_up_{false};
  std::shared_ptr<arrival> arrival_ = std::make_shared<arrival>();
  std::once_flag lost_once_;
  std::string lost_text_; ///< set once, with that
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
