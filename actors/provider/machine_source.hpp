// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// A machine as its source knows it.
struct sourced_machine {
  std::string machine;
  uint64_t lease = 0;     ///< the latest of the machine; each has a higher one
  microseconds since{0};  ///< billed from then on: wall clock, since 1970
  microseconds until{-1}; ///< until then; below 0: the lease has not ended
  MILLRACE_FIELDS(sourced_machine, machine, lease, since, until)

  bool open() const { return until < microseconds{0}; }
};

/// Where machines come from: a cloud, a simulated one. Calls return at once;
/// answers come later, and not at all to a process that has ended. All calls
/// can be made again.
class machine_source {
public:
  virtual ~machine_source() = default;

  using answer = std::function<void(sourced_machine)>;

  /// Begins a lease: the machine boots, and is billed from now on. Answers with
  /// the latest lease of the machine, which is another one when that is newer
  /// or has not ended.
  virtual void request(const std::string& machine, uint64_t lease,
                       answer done) = 0;

  /// Drains the machine's node, ends the machine, then the lease; answers
  /// then.
  virtual void release(const std::string& machine, uint64_t lease,
                       answer done) = 0;

  /// The latest lease of each machine that was ever requested.
  virtual void list(std::function<void(std::vector<sourced_machine>)> done) = 0;
};

} // namespace millrace
