// SPDX-License-Identifier: Apache-2.0

/// \file
/// What a GATEWAY remembers of requests, for people.

#include <algorithm>

#include "actors/gateway/gateway_state.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Of what a client calls something, what is kept.
constexpr size_t name_longest = 64;

/// Open requests that people are shown, the oldest.
constexpr size_t open_shown = 100;

/// What a request asked for, for people.
std::string asked_for(const infer& x) {
  if (x.application.empty())
    return "model " + first_of(x.model, name_longest)
           + (x.version.empty() ? "" : " " + first_of(x.version, name_longest));
  auto out = "application " + first_of(x.application, name_longest);
  if (x.accuracy)
    out += ", accuracy " + format_number(*x.accuracy) + " or more";
  if (x.latency)
    out += ", " + format_duration(*x.latency) + " or less";
  return out;
}

} // namespace

std::unique_ptr<const gateway_state::words>
gateway_state::words_of(const client_request& x) {
  if (x.trace.empty())
    return nullptr;
  return std::make_unique<const words>(
    words{first_of(x.trace, name_longest), asked_for(x.request)});
}

/// A request that was refused on arrival.
void gateway_state::remember(const client_request& x, const session& from,
                             const error& why) {
  auto time = now();
  request_story story;
  story.number = ++last_key_;
  story.trace = first_of(x.trace, name_longest);
  story.tenant = options_.tenants.at(from.endpoint);
  story.asked = asked_for(x.request);
  story.status = why.code;
  story.error = why.text;
  notable_.keep(std::move(story), time, time);
}

request_story gateway_state::story_of(uint64_t key, const request& r) const {
  auto& model = models_[r.model];
  request_story out;
  out.number = key;
  out.tenant = options_.tenants.at(r.from->first.endpoint);
  if (r.named) {
    out.trace = r.named->trace;
    out.asked = r.named->asked;
  }
  out.model = model.info.model;
  out.version = model.info.version;
  out.attempts = r.attempts;
  out.vain = r.vain;
  out.deadline = to_us(r.due - r.arrived);
  return out;
}

void gateway_state::remember(uint64_t key, const request& r,
                             const infer_reply& x, timestamp time,
                             const settled* by) {
  if (options_.spans->on())
    options_.spans->add("gateway", "", x.model, r.arrived, time, key, 0,
                        std::string{to_string(x.status)}
                          + (r.named ? " " + r.named->trace : ""));
  if (x.status == ec::ok && !r.named && !notable_.is_slow(x.total, time))
    return;
  auto story = story_of(key, r);
  story.status = x.status;
  story.error = x.error;
  story.replica = x.replica;
  story.batch = x.batch;
  story.queue = x.queue;
  story.execute = x.execute;
  story.total = x.total;
  if (by != nullptr)
    story.visits = by->visits;
  notable_.keep(std::move(story), r.arrived, time);
}

request_list gateway_state::on_get_requests(const get_requests& x) {
  auto time = now();
  const std::string none;
  std::vector<uint64_t> open;
  for (auto& [key, r] : in_flight_)
    if (x.which.empty()
        || is_meant(x.which, r.named ? r.named->trace : none, key))
      open.push_back(key);
  auto shown = open.begin()
               + static_cast<std::ptrdiff_t>(std::min(open.size(), open_shown));
  std::partial_sort(open.begin(), shown, open.end());
  open.erase(shown, open.end());
  request_list out;
  for (auto key : open) {
    auto& r = in_flight_.at(key);
    out.requests.push_back(story_of(key, r));
    out.requests.back().open = true;
    out.requests.back().ago = to_us(time - r.arrived);
  }
  for (auto& story : notable_.find(x.which, time))
    out.requests.push_back(std::move(story));
  return out;
}

} // namespace millrace
