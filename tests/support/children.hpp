// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <sys/types.h>

namespace millrace::test {

/// Processes whose parent that is.
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

/// A node's confined processes: their template's children.
inline std::set<pid_t> grandchildren_of(pid_t x) {
  std::set<pid_t> out;
  for (auto child : children_of(x))
    out.merge(children_of(child));
  return out;
}

} // namespace millrace::test
