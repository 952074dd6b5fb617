// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/inspector/inspector.hpp"

namespace millrace {

/// State of an INSPECTOR; see inspector.hpp.
struct inspector_state {
  const char* name = "inspector";

  void start(inspector_actor::stateful_pointer<inspector_state> self,
             inspector_options options);

  clock_reading on_get_clock() const;
  event_list on_get_events(const get_events& request) const;
  ack on_set_log(const set_log& request);
  examination on_examine() const;
  ack on_record(const record_spans& request);
  span_list on_get_spans(const get_spans& request) const;
  void on_tick();

private:
  inspector_actor::stateful_pointer<inspector_state> self_ = nullptr;
  inspector_options options_;
  timestamp record_until_ = far_future;
};

} // namespace millrace
