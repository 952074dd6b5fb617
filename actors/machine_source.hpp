// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// A machine as its source reports it.
struct sourced_machine {
  std::string machine;
  uint64_t lease = 0;     ///< latest lease; numbers of a machine increase
  microseconds since{0};  ///< start of billing: wall clock, since 1970
  microseconds until{-1}; ///< end of billing; below 0: the lease is open
  MILLRACE_FIELDS(sourced_machine, machine, lease, since, until)

  bool open() const { return until < microseconds{0}; }
};

/// A source of machines, such as a cloud or a simulated cloud. Calls return at
/// once. Answers come later, and never to a process that has ended. Every call
/// can be repeated.
class machine_source {
public:
  virtual ~machine_source() = default;

  using answer = std::function<void(sourced_machine)>;

  /// Begins a lease: the machine boots, and is billed from now on. Answers with
  /// the latest lease of the machine. That is a different lease when a newer or
  /// an open one exists.
  virtual void request(const std::string& machine, uint64_t lease,
                       answer done) = 0;

  /// Drains the machine's node, ends the machine and the lease, then answers.
  virtual void release(const std::string& machine, uint64_t lease,
                       answer done) = 0;

  /// Lists the latest lease of each machine that was ever requested.
  virtual void list(std::function<void(std::vector<sourced_machine>)> done) = 0;
};

} // namespace millrace
