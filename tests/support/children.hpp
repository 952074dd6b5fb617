// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <sys/types.h>

namespace millrace::test {

/// The child processes of x.
inline std::set<pid_t> children_of(pid_t x) {
  std::set<pid_t> out;
  auto tasks = "/proc/" + std::to_string(x) + "/task";
  for (auto& task : std::filesystem::directory_iterator{tasks}) {
    std::ifstream in{task.path() / "children"};
    for (pid_t child = 0; in >> child;)
      out.insert(child);
  }
  return out;
}

/// Returns true if process x has ended or is a zombie. The process that
/// inherits the children of a killed process may reap them late.
inline bool has_ended(pid_t x) {
  std::ifstream in{"/proc/" + std::to_string(x) + "/stat"};
  std::string all{std::istreambuf_iterator<char>{in}, {}};
  auto name_end = all.rfind(')');
  return name_end == std::string::npos || all.compare(name_end, 3, ") Z") == 0
         || all.compare(name_end, 3, ") X") == 0;
}

/// CPU time of all threads of x, in seconds.
inline double processor_seconds_of(pid_t x) {
  double nanoseconds = 0, out = 0;
  std::error_code gone;
  for (auto& task : std::filesystem::directory_iterator{
         "/proc/" + std::to_string(x) + "/task", gone})
    if (std::ifstream of{task.path() / "schedstat"}; of >> nanoseconds)
      out += nanoseconds / 1e9;
  return out;
}

/// The confined processes of a node, which are children of its template
/// process.
inline std::set<pid_t> grandchildren_of(pid_t x) {
  std::set<pid_t> out;
  for (auto child : children_of(x))
    out.merge(children_of(child));
  return out;
}

} // namespace millrace::test
