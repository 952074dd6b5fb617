// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <string_view>

#include "runtime/metrics.hpp"

namespace millrace::zeromq {

/// Counts the messages and bytes of a bus.
class traffic {
public:
  explicit traffic(metrics& counts)
    : counts_(counts),
      sent_(counts.bus_messages("sent")),
      received_(counts.bus_messages("received")),
      sent_bytes_(counts.bus_bytes("sent")),
      received_bytes_(counts.bus_bytes("received")),
      no_memory_(counts.bus_dropped("no_memory")) {}

  void sent(size_t messages, size_t bytes) {
    sent_.add(static_cast<double>(messages));
    sent_bytes_.add(static_cast<double>(bytes));
  }
  void received(size_t messages, size_t bytes) {
    received_.add(static_cast<double>(messages));
    received_bytes_.add(static_cast<double>(bytes));
  }
  void dropped(std::string_view why, size_t messages = 1) {
    counts_.bus_dropped(why).add(static_cast<double>(messages));
  }

  /// Runs the handler of a message. Returns false if memory ran out; the
  /// message is lost then.
  template <class F>
  bool take_in(F f) {
    try {
      f();
      return true;
    } catch (const std::bad_alloc&) {
      no_memory_.add();
      return false;
    }
  }

private:
  metrics& counts_;
  counter sent_, received_, sent_bytes_, received_bytes_;
  counter no_memory_; // made in advance: counting needs no memory
};

} // namespace millrace::zeromq
