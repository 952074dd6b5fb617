// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/confined/process_state.hpp"
#include "models/confined/template_process.hpp"

namespace millrace::confined {

/// How a process ended, for a stage in it.
struct process_end {
  std::string text;
  ec code;           ///< cancelled: this stage is not known to be the cause
  bool known = true; ///< whether the cause is known
};

/// Reason of an end that this node did not cause.
constexpr std::string_view by_itself{};

/// Life of a confined process:
///
///     open ──close, or a stage could not enter──▶ closed
///       └──────────┬─────────────────────────────────┘
///                  ▼ end(), by the first caller
///                ended
enum class process_life : uint8_t {
  open,   ///< stages may enter
  closed, ///< its stages continue; no further stage may enter
  ended   ///< killed, or found to have ended
};

/// A confined process: of one stage, or `shared` by the stages that enter while
/// it lives. It ends with the last stage that leaves. Any thread.
class running_process {
public:
  running_process(template_process& parent, confined_child child, bool shared)
    : parent_(parent),
      shared_(shared),
      child_(std::move(child)) {}
  ~running_process() { end(by_itself, false); }
  running_process(const running_process&) = delete;
  running_process& operator=(const running_process&) = delete;

  /// Handle of a stage in a process that it has entered.
  struct entry {
    file_descriptor life_line;
    uint64_t number = 0; ///< for leave()
  };

  /// Adds a stage, which may have `threads` threads. For a shared
  /// process, the first stage's `how` sets the rights of the process.
  /// Errors: unavailable when the process has ended; overloaded when the other
  /// stages may need the memory: without it they would fail, too.
  result<entry> enter(const std::string& stage, const life_order& how,
                      size_t threads);

  /// Allows `threads` threads for a stage from now on. The limit never falls:
  /// LibTorch keeps the threads that it has started.
  void expect_threads(uint64_t number, size_t threads);

  /// Removes a stage.
  void leave(uint64_t number);

  /// No further stage may enter.
  void close();
  bool takes_others();

  /// Stages that left long ago but still run something. While there are some,
  /// no further stage may enter.
  std::vector<std::string> lingering();

  /// Whether it has more threads than LibTorch might start for its stages.
  bool is_crowded();

  /// Whether it has more memory than allowed, in cases where the system does
  /// not enforce that: see confine().
  bool has_too_much_memory();

  /// Whether a signal has stopped it.
  bool is_stopped() const { return look_at(child_.id).stopped; }

  /// Kills the process. Only the first call counts. `known`: the calling stage
  /// alone is the cause.
  process_end end(std::string_view why, bool known);

  bool is_shared() const { return shared_; }

private:
  /// A stage that shares the process.
  struct guest {
    uint64_t number;
    std::string stage;
    file_descriptor left; ///< readable once the stage has left
    size_t threads = 0;
    uint64_t memory = 0;         ///< address space
    timestamp done = far_future; ///< far_future, or when leave() was called
    bool lingers() const;
  };

  result<entry> add_guest(const std::string& stage, const life_order& how,
                          size_t threads);
  void forget_who_left();
  void close_locked();
  void kill_locked(std::string_view why, bool known);

  template_process& parent_;
  const bool shared_;
  std::mutex mutex_;
  confined_child child_; ///< its life line is guarded
  size_t stages_ = 0;    ///< guarded; stages that have not left
  size_t threads_ = 0;   ///< guarded; of all stages
  uint64_t limit_ = 0;   ///< guarded; of the address space; by the first stage
  uint64_t most_memory_ = UINT64_MAX; ///< guarded; with a GPU; likewise
  uint64_t memory_ = 0;       ///< guarded; address space that guests may use
  std::vector<guest> guests_; ///< guarded
  uint64_t last_guest_ = 0;   ///< guarded
  // Guarded, as all fields below:
  process_life life_ = process_life::open;
  std::optional<int> status_; ///< as in waitpid(2), if known
  std::string why_;           ///< from the first end()
  bool known_ = false;        ///< from the first end()
};

/// Interval between two checks of a process during a run.
constexpr auto look_again = 100ms;

/// Checks a process repeatedly.
class process_watch {
public:
  explicit process_watch(running_process& at) : at_(at) {}

  /// The reason to end the process; empty: none.
  std::string_view look();

  /// Receives the next record on that line, until `until` or until there is a
  /// reason to end the process: see why().
  template <class Record>
  received hear(const file_descriptor& line, Record& to, timestamp until) {
    for (;;) {
      auto next = std::min(until, steady_now() + look_again);
      auto came = receive_record(line, to, next);
      if (came != received::nothing)
        return came;
      why_ = look();
      if (!why_.empty() || steady_now() >= until)
        return came;
    }
  }

  /// The reason that ended hear(); empty: none.
  std::string_view why() const { return why_; }

private:
  running_process& at_;
  int stopped_ = 0; ///< consecutive checks that found it stopped
  std::string_view why_;
};

/// Provides stages with processes: a new one each, or one shared process while
/// it lives. Stages that may have ended the last shared process get their own.
/// Any thread.
class process_source {
public:
  process_source(template_process& parent, bool shared)
    : parent_(parent),
      shared_(shared) {}

  struct entry {
    std::shared_ptr<running_process> process;
    file_descriptor life_line;
    uint64_t number = 0; ///< as in running_process::entry
  };

  /// Enters a process with one more stage. May take as long as a fork.
  /// Errors: unavailable.
  result<entry> enter(const std::string& stage, const life_order& how,
                      size_t threads);

  /// Notes that a shared process ended from an unknown cause while this stage
  /// was active in it. For a minute the stage gets processes of its own, so
  /// that the cause of a further end is known.
  void suspect(const std::string& stage);

private:
  bool is_suspect(const std::string& stage);

  template_process& parent_;
  const bool shared_;
  std::mutex mutex_;
  std::shared_ptr<running_process> now_;      ///< guarded; the shared process
  std::mutex suspects_mutex_;                 ///< not held during a fork
  std::map<std::string, timestamp> suspects_; ///< guarded by it; expiry times
};

} // namespace millrace::confined
