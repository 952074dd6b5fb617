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

/// What became of a process, and of a stage in it.
struct process_end {
  std::string text;
  ec code;           ///< cancelled: the stage is not known to be the cause
  bool known = true; ///< whether anybody is
};

/// Of a process that nobody here has ended.
constexpr std::string_view by_itself{};

/// A confined process: of one stage, or `shared` by those that come while it
/// lives. It ends with the last one that leaves. Any thread.
class running_process {
public:
  running_process(template_process& parent, confined_child child, bool shared)
    : parent_(parent),
      shared_(shared),
      child_(std::move(child)) {}
  ~running_process() { end(by_itself, false); }
  running_process(const running_process&) = delete;
  running_process& operator=(const running_process&) = delete;

  /// What a stage has of a process that it has entered.
  struct entry {
    file_descriptor life_line;
    uint64_t number = 0; ///< it leaves by
  };

  /// For a stage of that name, which may have so many threads of its own. `how`
  /// says what a process that is shared may do, if it is the first. Errors:
  /// unavailable, when it has ended; overloaded, where others take what memory
  /// it may have, for at its end anything may fail.
  result<entry> enter(const std::string& stage, const life_order& how,
                      size_t threads);

  /// A stage that has entered may have `threads` threads from now on. Its limit
  /// does not fall: LibTorch keeps threads that it has started.
  void expect_threads(uint64_t number, size_t threads);

  /// One that has entered is done with it.
  void leave(uint64_t number);

  /// From now on nobody else enters it.
  void close();
  bool takes_others();

  /// Stages that were done with it long ago, and something of which goes on:
  /// while there are some it takes no others.
  std::vector<std::string> lingering();

  /// Whether it has more threads than LibTorch might start for its stages.
  bool is_crowded();

  /// Whether it has more memory than it may take, where the system does not see
  /// to that: see confine().
  bool has_too_much_memory();

  /// By a signal.
  bool is_stopped() const { return look_at(child_.id).stopped; }

  /// Kills it, the first time: then why counts, and whether that is `known` to
  /// be the doing of the stage that says so, and of no other.
  process_end end(std::string_view why, bool known);

  bool is_shared() const { return shared_; }

private:
  /// A stage that shares the process.
  struct guest {
    uint64_t number;
    std::string stage;
    file_descriptor left; ///< readable once it has, with these
    size_t threads = 0;
    uint64_t memory = 0;         ///< address space
    timestamp done = far_future; ///< since when it should be gone
    bool lingers() const;
  };

  result<entry> add_guest(const std::string& stage, const life_order& how,
                          size_t threads);
  void forget_who_left();
  void kill_locked(std::string_view why, bool known);

  template_process& parent_;
  const bool shared_;
  std::mutex mutex_;
  confined_child child_; ///< its life line guarded
  size_t stages_ = 0;    ///< guarded; that have not left
  size_t threads_ = 0;   ///< guarded; of all that are there
  uint64_t limit_ = 0;   ///< guarded; of its address space: the first one's
  uint64_t most_memory_ = UINT64_MAX; ///< guarded; likewise, with a GPU
  uint64_t memory_ = 0;       ///< guarded; of that, what guests may take
  std::vector<guest> guests_; ///< guarded
  uint64_t last_guest_ = 0;   ///< guarded
  // All of them guarded:
  bool is_closed_ = false;
  bool has_ended_ = false;
  std::optional<int> status_; ///< as waitpid(2) has it, if somebody knows
  std::string why_;           ///< said by who has ended it
  bool known_ = false;        ///< that this was its doing
};

/// Between two looks at a process that runs something.
constexpr auto look_again = 100ms;

/// Looks at a process again and again.
class process_watch {
public:
  explicit process_watch(running_process& at) : at_(at) {}

  /// Why it is to be ended; empty, if there is nothing.
  std::string_view look();

  /// Its next word on that line, within that time, unless it is to be ended:
  /// see why().
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

  /// As look() has said in hear().
  std::string_view why() const { return why_; }

private:
  running_process& at_;
  int stopped_ = 0; ///< looks at which it was, without a break
  std::string_view why_;
};

/// Where stages get their processes: each a new one, or all of them the same,
/// as long as it lives, but for those that may be what ended the last one. Any
/// thread.
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

  /// A process for one more stage. Takes as long as a fork. Errors:
  /// unavailable.
  result<entry> enter(const std::string& stage, const life_order& how,
                      size_t threads);

  /// That stage had something to do in a shared process that ended, and nobody
  /// knows whose doing that was: for a minute it gets processes of its own, so
  /// that the next time somebody does.
  void suspect(const std::string& stage);

private:
  bool is_suspect(const std::string& stage);

  template_process& parent_;
  const bool shared_;
  std::mutex mutex_;
  std::shared_ptr<running_process> now_;      ///< guarded; that is shared
  std::mutex suspects_mutex_;                 ///< which waits for no fork
  std::map<std::string, timestamp> suspects_; ///< guarded by that; until when
};

} // namespace millrace::confined
