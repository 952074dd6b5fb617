// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

namespace millrace::test {

/// The thread of a process with this name; 0: none.
inline pid_t thread_of(pid_t process, const std::string& name) {
  auto tasks = "/proc/" + std::to_string(process) + "/task";
  for (auto& task : std::filesystem::directory_iterator{tasks}) {
    std::ifstream in{task.path() / "comm"};
    std::string its;
    if (std::getline(in, its) && its == name)
      return std::stoi(task.path().filename());
  }
  return 0;
}

/// Stops one thread of a process while this object lives, as if an actor hangs.
/// The other threads run on. The kernel requires that the same thread stops and
/// resumes it.
class stopped_thread {
public:
  explicit stopped_thread(pid_t thread) : thread_(thread) {
    REQUIRE(::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0);
    REQUIRE(::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0);
    int status = 0;
    REQUIRE(::waitpid(thread_, &status, __WALL) == thread_);
    REQUIRE(WIFSTOPPED(status));
  }
  ~stopped_thread() { ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr); }
  stopped_thread(const stopped_thread&) = delete;
  stopped_thread& operator=(const stopped_thread&) = delete;

private:
  pid_t thread_;
};

} // namespace millrace::test
