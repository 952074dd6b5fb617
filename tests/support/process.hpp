// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/time.hpp"

extern char** environ;

namespace millrace::test {

/// A child process with output to a file. The destructor kills it.
class process {
public:
  process() = default;

  process(const std::vector<std::string>& command, const std::string& output) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, output.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    std::vector<char*> argv;
    for (auto& x : command)
      argv.push_back(const_cast<char*>(x.c_str()));
    argv.push_back(nullptr);
    if (::posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), environ)
        != 0)
      pid_ = -1;
    posix_spawn_file_actions_destroy(&files);
  }

  process(process&& x) noexcept : pid_(std::exchange(x.pid_, -1)) {}
  process& operator=(process&& x) noexcept {
    end(SIGKILL);
    pid_ = std::exchange(x.pid_, -1);
    return *this;
  }
  ~process() { end(SIGKILL); }

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }
  void signal(int number) const { ::kill(pid_, number); }

  /// Sends a signal and waits for the exit. Returns the exit status, or the
  /// negative number of the signal that ended the process.
  int end(int number) {
    if (pid_ <= 0)
      return 0;
    ::kill(pid_, number);
    return wait();
  }

  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

private:
  pid_t pid_ = -1;
};

} // namespace millrace::test
