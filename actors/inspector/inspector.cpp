// SPDX-License-Identifier: Apache-2.0
#include "actors/inspector/inspector_state.hpp"

#include <algorithm>

#include "runtime/log.hpp"

namespace millrace {

namespace {

constexpr uint64_t spans_most = 100'000;
constexpr microseconds record_longest = 60s;

/// How long spans stay readable after the end of a recording.
constexpr microseconds kept_for = 5min;

/// Limit of spans in one reply, so that other replies are not delayed.
constexpr size_t spans_in_answer = 1000;

} // namespace

void inspector_state::start(
  inspector_actor::stateful_pointer<inspector_state> self,
  inspector_options options) {
  self_ = self;
  options_ = std::move(options);
  set_common_handlers(self);
}

clock_reading inspector_state::on_get_clock() const {
  return {to_us(self_->clock().now().time_since_epoch()),
          options_.wall_clock ? options_.wall_clock() : microseconds{0}};
}

event_list inspector_state::on_get_events(const get_events& request) const {
  return {remembered_events().last(request.last)};
}

ack inspector_state::on_set_log(const set_log& request) {
  set_log_level(request.level);
  return {};
}

examination inspector_state::on_examine() const {
  return {MILLRACE_VERSION,
          options_.examine ? options_.examine() : std::vector<finding>{}};
}

ack inspector_state::on_record(const record_spans& request) {
  options_.spans->start(std::min(request.most, spans_most));
  record_until_ =
    self_->clock().now()
    + std::clamp(request.longest, microseconds{0}, record_longest);
  send_at(self_, record_until_, tick::value);
  return {};
}

span_list inspector_state::on_get_spans(const get_spans& request) const {
  auto& spans = *options_.spans;
  return {spans.kept(request.first, spans_in_answer), spans.size(),
          spans.lost()};
}

void inspector_state::on_tick() {
  auto now = self_->clock().now();
  if (now >= record_until_ + kept_for)
    return options_.spans->forget();
  if (now < record_until_) // a new recording has started
    return;
  options_.spans->stop();
  send_at(self_, record_until_ + kept_for, tick::value);
}

inspector_actor::behavior_type
inspector(inspector_actor::stateful_pointer<inspector_state> self,
          inspector_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](get_clock) { return s.on_get_clock(); },
    [&s](const get_events& x) { return s.on_get_events(x); },
    [&s](const set_log& x) { return s.on_set_log(x); },
    [&s](examine) { return s.on_examine(); },
    [&s](const record_spans& x) { return s.on_record(x); },
    [&s](const get_spans& x) { return s.on_get_spans(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
