// SPDX-License-Identifier: Apache-2.0
#include "models/confined/confined_stage.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <vector>

#include "models/confined/arena.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace::confined {

namespace {

/// Between two looks at a process that runs something.
constexpr auto look_again = 100ms;

/// Looks at a stopped process until it is given up.
constexpr int stopped_looks = 3;

/// A run of so many times the longest before it has no end, if its deadline has
/// passed.
constexpr int patience = 4;

/// As long as a request may take at most.
constexpr auto longest_run = 10min;

/// So many connections fit into one order.
constexpr uint32_t most_lanes = 200;

/// What an arena is made for at first, at least.
constexpr size_t smallest_arena = 64 << 10;

timestamp now() {
  return std::chrono::steady_clock::now();
}

std::string text_of(sentence& x) {
  x[sizeof x - 1] = 0;
  return x;
}

/// The manifest and the code, one after the other, in memory that nobody can
/// change.
result<file_descriptor> pack(const bundle& x, const std::string& manifest) {
  file_descriptor out{
    ::memfd_create("millrace-bundle", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  auto write = [&](const_bytes rest) {
    while (!rest.empty()) {
      auto n = ::write(out.get(), rest.data(), rest.size());
      if (n < 0)
        return false;
      rest = rest.subspan(static_cast<size_t>(n));
    }
    return true;
  };
  auto whole = write(std::as_bytes(std::span{manifest}));
  for (auto& code : x.code)
    whole = whole && write(code.view());
  if (!whole
      || ::fcntl(out.get(), F_ADD_SEALS,
                 F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
           != 0)
    return error{ec::unavailable, std::string{"cannot hand over a bundle: "}
                                    + std::strerror(errno)};
  return out;
}

/// Whether a signal, or a debugger, has stopped it (proc(5), stat).
bool is_stopped(pid_t process) {
  auto text = read_file("/proc/" + std::to_string(process) + "/stat", 4096);
  if (!text)
    return false;
  auto name_end = text->rfind(')'); // the name may hold anything
  return name_end != std::string::npos && name_end + 2 < text->size()
         && ((*text)[name_end + 2] == 'T' || (*text)[name_end + 2] == 't');
}

size_t room_for(size_t bytes) {
  auto out = smallest_arena;
  while (out < bytes)
    out *= 2;
  return out;
}

class stage_with_process : public confined_stage {
public:
  stage_with_process(template_process& parent, stage_settings settings,
                     stage_events events)
    : parent_(parent),
      settings_(std::move(settings)),
      events_(std::move(events)),
      lanes_(std::clamp(settings_.lanes, 1u, most_lanes)) {
    for (auto& x : lanes_)
      free_.push_back(&x);
    keeper_.emplace("confined");
    keeper_->post([this] { keep(); });
  }

  ~stage_with_process() override {
    stage_with_process::give_up();
    keeper_.reset();
  }

  void give_up() override {
    given_up_ = true;
    end_process();
  }

  /// Whoever wrote the model decides.
  bool depends_on_values() const override { return true; }

  result<tensor_list> run(const tensor_list& inputs, timestamp until) override {
    auto& mine = take_lane();
    auto out = run_on(mine, inputs, until);
    {
      std::lock_guard guard{mutex_};
      free_.push_back(&mine);
    }
    freed_.notify_one();
    return out;
  }

private:
  struct lane {
    file_descriptor connection;
    arena memory;
  };

  // -- its life, on the keeper's thread ---------------------------------------

  void keep() {
    auto times = load();
    auto failed = !times;
    if (failed)
      end_process();
    if (given_up_)
      return;
    events_.loaded(std::move(times));
    if (failed)
      return;
    load_answer never;
    static_cast<void>(receive_record(life_line_, never));
    lose("ended");
  }

  result<load_times> load() {
    auto life = make_connection();
    if (!life)
      return life.failure();
    life_line_ = std::move(life->first);
    auto process = parent_.fork(life->second);
    if (!process)
      return process.failure();
    life->second = file_descriptor{};
    {
      std::lock_guard guard{mutex_};
      process_ = *process;
    }
    if (given_up_) // while there was nothing to end
      end_process();
    if (auto done = order_load(); !done)
      return done.failure();
    load_answer answer;
    switch (receive_record(life_line_, answer, now() + settings_.load_limit)) {
    case arrival::nothing:
      return error{ec::unavailable,
                   "the model was not loaded within "
                     + format_duration(to_us(settings_.load_limit))
                     + ", and its process was ended"};
    case arrival::ended:
      return error{ec::unavailable, "the model's process ended with "
                                      + end_text(end_process())
                                      + " while it loaded the model"};
    case arrival::record:
      break;
    }
    if (!answer.loaded)
      return error{ec::internal,
                   settings_.content->directory + ": " + text_of(answer.text)};
    longest_ = answer.warm_up_ns;
    return load_times{nanoseconds{answer.load_ns},
                      nanoseconds{answer.warm_up_ns}};
  }

  result<void> order_load() {
    auto& x = *settings_.content;
    auto manifest = print_manifest(x.info);
    auto packed = pack(x, manifest);
    if (!packed)
      return packed.failure();
    std::vector<int> files{packed->get()};
    if (x.weights_file)
      files.push_back(x.weights_file->get());
    std::vector<file_descriptor> ends;
    for (auto& l : lanes_) {
      auto pair = make_connection();
      if (!pair)
        return pair.failure();
      l.connection = std::move(pair->first);
      ends.push_back(std::move(pair->second));
      files.push_back(ends.back().get());
    }
    load_order order;
    order.manifest_bytes = manifest.size();
    order.first_layer = settings_.first_layer;
    order.last_layer = settings_.last_layer;
    order.max_batch = settings_.max_batch;
    order.memory = settings_.memory.value;
    order.threads = settings_.threads;
    order.lanes = static_cast<uint32_t>(lanes_.size());
    if (!send_record(life_line_, order, files))
      return error{ec::unavailable, "the model's process ended at once"};
    return {};
  }

  /// Returns how it ended, as far as somebody knows it.
  int end_process() {
    pid_t process = 0;
    {
      std::lock_guard guard{mutex_};
      std::swap(process, process_);
    }
    return process == 0 ? 0 : parent_.end(process);
  }

  /// Its process is of no more use; whoever finds that out first says why.
  void lose(const std::string& why) {
    std::call_once(lost_once_, [&] {
      auto status = end_process();
      auto text = "the model's process " + why;
      if (why == "ended")
        text += " with " + end_text(status);
      if (!given_up_)
        events_.lost(error{ec::unavailable, std::move(text)});
      lost_ = true;
    });
  }

  // -- runs, on a thread of the device's --------------------------------------

  lane& take_lane() {
    std::unique_lock guard{mutex_};
    freed_.wait(guard, [this] { return !free_.empty(); });
    auto* out = free_.back();
    free_.pop_back();
    return *out;
  }

  static error ended_before() {
    return {ec::unavailable, "the model's process has ended"};
  }

  result<tensor_list> run_on(lane& on, const tensor_list& inputs,
                             timestamp until) {
    if (lost_)
      return ended_before();
    lane_order order;
    order.tensors = static_cast<uint32_t>(inputs.size());
    if (!on.memory.put(inputs)) {
      // As much again for what comes out.
      if (auto made = widen(on, 2 * arena::bytes_for(inputs)); !made)
        return made.failure();
      if (!on.memory.put(inputs))
        return error{ec::too_large, "more than 64 inputs"};
      order.arena = on.memory.size();
    }
    if (!send(on, order)) {
      lose("ended");
      return ended_before();
    }
    auto started = now();
    auto limit = std::max(until, started + patience * nanoseconds{longest_});
    limit = std::min(limit, started + longest_run);
    lane_answer answer;
    if (!receive(on, answer, limit))
      return died();
    if (answer.what == lane_answer::needs_room) {
      if (auto made = widen(on, answer.room); !made) {
        lose("gave more than 1 GiB at once, and was ended");
        return died();
      }
      order = {lane_order::fetch, 0, on.memory.size()};
      if (!send(on, order) || !receive(on, answer, limit))
        return died();
    }
    auto took = nanoseconds{now() - started}.count();
    for (auto longest = longest_.load();
         took > longest && !longest_.compare_exchange_weak(longest, took);)
      ;
    if (answer.what != lane_answer::done)
      return error{ec::internal, text_of(answer.text)};
    return on.memory.copy(answer.tensors);
  }

  result<void> widen(lane& on, size_t bytes) {
    if (bytes > largest_arena)
      return error{ec::too_large, "inputs or outputs of more than 1 GiB"};
    auto made = arena::make(room_for(bytes));
    if (!made)
      return made.failure();
    on.memory = std::move(*made);
    return {};
  }

  static bool send(lane& on, const lane_order& order) {
    std::vector<int> files;
    if (order.arena != 0)
      files.push_back(on.memory.file().get());
    return send_record(on.connection, order, files);
  }

  error died() const {
    return {ec::poison, "the model's process ended while it ran this"};
  }

  /// False when the process is lost.
  bool receive(lane& on, lane_answer& answer, timestamp until) {
    for (int stopped = 0;;) {
      auto look = std::min(until, now() + look_again);
      switch (receive_record(on.connection, answer, look)) {
      case arrival::record:
        return true;
      case arrival::ended:
        lose("ended");
        return false;
      case arrival::nothing:
        break;
      }
      pid_t process = 0;
      {
        std::lock_guard guard{mutex_};
        process = process_;
      }
      stopped = is_stopped(process) ? stopped + 1 : 0;
      if (stopped == stopped_looks) {
        lose("was stopped by a signal, and was ended");
        return false;
      }
      if (now() >= until) {
        lose("ran past the deadline of what it ran, and was ended");
        return false;
      }
    }
  }

  template_process& parent_;
  stage_settings settings_;
  stage_events events_;
  std::vector<lane> lanes_;
  file_descriptor life_line_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<lane*> free_;         ///< guarded
  pid_t process_ = 0;               ///< guarded; 0: none, or ended
  std::atomic<int64_t> longest_{0}; ///< run, in nanoseconds
  std::atomic<bool> lost_{false};
  std::atomic<bool> given_up_{false};
  std::once_flag lost_once_;
  std::optional<worker_thread> keeper_;
};

} // namespace

std::unique_ptr<confined_stage> make_confined_stage(template_process& parent,
                                                    stage_settings settings,
                                                    stage_events events) {
  return std::make_unique<stage_with_process>(parent, std::move(settings),
                                              std::move(events));
}

} // namespace millrace::confined
