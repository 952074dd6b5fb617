// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "runtime/error.hpp"

namespace millrace {

constexpr auto this_program = "/proc/self/exe";

/// The program `millrace`: this process's own, or the one beside it.
std::string millrace_program();

/// A child process; its standard output is read to the end.
class child {
public:
  /// `arguments`: without the program's name.
  explicit child(std::vector<std::string> arguments,
                 const std::string& program = millrace_program());

  /// Waits for the end of the process; returns its standard output.
  std::string wait();

private:
  pid_t pid_ = -1;
  int out_ = -1;
};

/// Bytes of memory. A page shared by several processes counts in parts (PSS).
struct held_memory {
  uint64_t all = 0;
  uint64_t weights = 0; ///< part of `all`: weights of models, in sealed files

  held_memory& operator+=(const held_memory& other) {
    all += other.all;
    weights += other.weights;
    return *this;
  }
};

/// A child process that runs in the background, with its output in a file. The
/// destructor sends SIGTERM, then SIGKILL.
class service {
public:
  /// `network`: file of a network namespace; empty: the parent's.
  service(std::vector<std::string> arguments, const std::string& log,
          const std::string& network = {},
          const std::string& program = millrace_program());
  service(const service&) = delete;
  service& operator=(const service&) = delete;
  ~service();

  /// Sends SIGKILL, as if the host had lost power.
  void kill();
  /// Processor time of all threads so far.
  double processor_seconds() const;
  /// Memory of the process and all its descendants. Errors: forbidden where
  /// /proc denies access, as for other users' and confined processes.
  result<held_memory> memory() const;

private:
  pid_t pid_ = -1;
};

/// Calls work(0) to work(n - 1), in as many threads as there are cores.
/// Sometimes calls `progress` with the number of finished calls.
void do_all(size_t n, const std::function<void(size_t)>& work,
            const std::function<void(size_t done)>& progress);

} // namespace millrace
