// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/metrics.hpp"

namespace millrace::zeromq {

/// Counts what goes through a bus.
class traffic {
public:
  explicit traffic(metrics& counts)
    : counts_(counts),
      sent_(counts.bus_messages("sent")),
      received_(counts.bus_messages("received")),
      sent_bytes_(counts.bus_bytes("sent")),
      received_bytes_(counts.bus_bytes("received")) {}

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

private:
  metrics& counts_;
  counter sent_, received_, sent_bytes_, received_bytes_;
};

} // namespace millrace::zeromq
