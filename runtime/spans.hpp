// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// A time interval that one step of request handling took on one node.
struct span {
  std::string track;    ///< actor: "gateway", "replica/digits.1.2"
  std::string name;     ///< step: "waits", "runs"
  microseconds from{0}; ///< start, on the node's clock
  microseconds length{0};
  uint64_t request = 0; ///< the gateway's request number; 0: no request
  uint64_t batch = 0;   ///< cluster-wide number of the batch; 0: no batch
  std::string note;
  MILLRACE_FIELDS(span, track, name, from, length, request, batch, note)
};

/// Records the spans of one node while tracing is on. When tracing is off, on()
/// costs one load. Thread-safe.
class span_recorder {
public:
  bool on() const { return on_.load(std::memory_order_relaxed); }

  /// Drops all spans, then records up to `most` spans; further spans are only
  /// counted, as lost.
  void start(size_t most);
  void stop() { on_ = false; }

  /// Stops and releases the recorded spans.
  void forget();

  /// Adds a span; only while on() is true. `name` and `note` are not changed.
  void add(const char* role, const std::string& who, std::string name,
           timestamp from, timestamp to, uint64_t request, uint64_t batch,
           std::string note = {});

  /// At most `most` spans, from index `first` on.
  std::vector<span> kept(size_t first, size_t most) const;
  size_t size() const;
  size_t lost() const;

private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_; // guards the members below
  std::vector<span> spans_;
  size_t most_ = 0;
  size_t lost_ = 0;
};

} // namespace millrace
