// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "runtime/time.hpp"

namespace millrace {

/// Writes events of Chrome's trace format, which https://ui.perfetto.dev shows:
/// times in microseconds, tracks by process and thread number. A text is
/// written with its quotes and control characters replaced.
class trace_file {
public:
  explicit trace_file(std::ostream& out);
  ~trace_file();

  void name_process(size_t pid, const std::string& name);
  void name_thread(size_t pid, size_t tid, const std::string& name);

  /// `args` are JSON members, or nothing.
  void slice(size_t pid, size_t tid, const std::string& name, microseconds from,
             microseconds to, const std::string& args = {});

  /// An arrow from slice to slice: where it begins, passes and ends.
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

/// Tracks for things that overlap: each takes the first that is free. Asked in
/// order of `from`.
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
