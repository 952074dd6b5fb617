// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Something on the way of requests that took time on one node.
struct span {
  std::string track;    ///< which actor: "gateway", "replica/digits.1.2"
  std::string name;     ///< what it was: "waits", "runs"
  microseconds from{0}; ///< on the node's clock
  microseconds length{0};
  uint64_t request = 0; ///< the gateway's number of the request; 0: of none
  uint64_t batch = 0;   ///< names a batch on every node; 0: of none
  std::string note;
  MILLRACE_FIELDS(span, track, name, from, length, request, batch, note)
};

/// Keeps the spans of one node while somebody wants them; else asking costs one
/// load. Any thread.
class span_recorder {
public:
  bool on() const { return on_.load(std::memory_order_relaxed); }

  /// Forgets what was kept and keeps so many from now on; more are counted.
  void start(size_t most);
  void stop() { on_ = false; }

  /// As stop, and gives back what was kept.
  void forget();

  /// Of a recorder that is on. `name` and `note` are kept as they are.
  void add(const char* role, const std::string& who, std::string name,
           timestamp from, timestamp to, uint64_t request, uint64_t batch,
           std::string note = {});

  /// At most so many spans from a place on.
  std::vector<span> kept(size_t first, size_t most) const;
  size_t size() const;
  size_t lost() const;

private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_; // guards what follows
  std::vector<span> spans_;
  size_t most_ = 0;
  size_t lost_ = 0;
};

} // namespace millrace
