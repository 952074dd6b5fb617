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

/// Another process, whose standard output is read to its end.
class child {
public:
  /// The arguments after the program's name.
  explicit child(std::vector<std::string> arguments,
                 const std::string& program = this_program);

  /// Waits for its end; returns what it wrote.
  std::string wait();

private:
  pid_t pid_ = -1;
  int out_ = -1;
};

/// Bytes of memory; of pages that several processes have, each has a part
/// (PSS).
struct held_memory {
  uint64_t all = 0;
  uint64_t weights = 0; ///< of it: models', from sealed files

  held_memory& operator+=(const held_memory& x) {
    all += x.all;
    weights += x.weights;
    return *this;
  }
};

/// A process that runs beside: its output goes to a file. Asked
/// to end, and then made to, with this object.
class service {
public:
  /// In a network namespace, a file, unless that is empty.
  service(std::vector<std::string> arguments, const std::string& log,
          const std::string& network = {},
          const std::string& program = this_program);
  service(const service&) = delete;
  service& operator=(const service&) = delete;
  ~service();

  /// At once, as if its host had lost power.
  void kill();
  /// That it has used, with all its threads.
  double processor_seconds() const;
  /// Of it and all processes that it has started, and those of theirs.
  /// Errors: forbidden where that may not be read, of others' and of confined
  /// ones.
  result<held_memory> memory() const;

private:
  pid_t pid_ = -1;
};

/// Has work(0) to work(n - 1) done, as many at once as there are cores, and
/// tells `progress` now and then how many are over.
void do_all(size_t n, const std::function<void(size_t)>& work,
            const std::function<void(size_t done)>& progress);

} // namespace millrace
