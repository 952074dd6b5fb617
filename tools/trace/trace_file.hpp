// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "runtime/time.hpp"

namespace millrace {

/// Writes events in Chrome's trace format, for https://ui.perfetto.dev: times
/// in microseconds, tracks by process and thread number. Quotes and control
/// characters in texts are replaced.
class trace_file {
public:
  explicit trace_file(std::ostream& out);
  ~trace_file();

  void name_process(size_t pid, const std::string& name);
  void name_thread(size_t pid, size_t tid, const std::string& name);

  /// `args`: JSON members, or empty.
  void slice(size_t pid, size_t tid, const std::string& name, microseconds from,
             microseconds to, const std::string& args = {});

  /// An arrow between slices: its begin, an intermediate slice, its end.
  enum class arrow : char { begins = 's', passes = 't', ends = 'f' };
  void flow(arrow what, size_t pid, size_t tid, uint64_t id, microseconds at);

  void instant(size_t pid, size_t tid, const std::string& name,
               microseconds at);

private:
  std::ostream& next();
  std::ostream& event(char kind, size_t pid, size_t tid,
                      const std::string& name, microseconds at);

  std::ostream& out_;
  bool first_ = true;
};

/// "KEY":"TEXT", a member of args.
std::string trace_member(const std::string& key, const std::string& text);

/// Assigns overlapping intervals to tracks: each interval takes the first free
/// track. To be called in order of `from`.
class trace_rows {
public:
  size_t take(microseconds from, microseconds to);
  size_t used() const { return used_; }

private:
  using entry = std::pair<microseconds, size_t>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> busy_;
  size_t used_ = 0;
};

} // namespace millrace
