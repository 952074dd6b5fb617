// SPDX-License-Identifier: Apache-2.0

/// \file
/// Reports of a GATEWAY on open and notable requests, for operators.

#include <algorithm>

#include "actors/gateway/gateway_state.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Longest name that is kept of a client's text, in bytes.
constexpr size_t name_longest = 64;

/// Most open requests in a report: the oldest ones.
constexpr size_t open_shown = 100;

/// The target of a request as text.
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

void add_track(request_story& to, request_track& x) {
  to.attempts = x.attempts;
  to.queue = x.queue;
  to.vain = std::move(x.vain);
  to.stays = std::move(x.stays);
}

} // namespace

std::unique_ptr<const gateway_state::words>
gateway_state::words_of(const client_request& request) {
  if (request.trace.empty())
    return nullptr;
  return std::make_unique<const words>(
    words{first_of(request.trace, name_longest), asked_for(request.request)});
}

/// Keeps a request that was refused on arrival.
void gateway_state::remember(const client_request& request, const session& from,
                             const error& why) {
  auto time = now();
  request_story story;
  story.number = ++last_key_;
  story.trace = first_of(request.trace, name_longest);
  story.tenant = options_.tenants.at(from.endpoint);
  story.asked = asked_for(request.request);
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
                             const infer_reply& reply, timestamp time,
                             const requests_completed* by) {
  if (options_.spans->on())
    options_.spans->add("gateway", "", reply.model, r.arrived, time, key, 0,
                        std::string{to_string(reply.status)}
                          + (r.named ? " " + r.named->trace : ""));
  if (reply.status == ec::ok && !r.named && r.vain.empty()
      && !notable_.is_slow(reply.total, time))
    return;
  auto story = story_of(key, r);
  story.status = reply.status;
  story.error = reply.error;
  story.replica = reply.replica;
  story.batch = reply.batch;
  story.queue = reply.queue;
  story.execute = reply.execute;
  story.total = reply.total;
  if (by != nullptr)
    story.visits = by->visits;
  notable_.keep(std::move(story), r.arrived, time);
}

/// Keys of the oldest open requests with this trace id or number; `which`
/// empty: of all.
std::vector<uint64_t> gateway_state::open_ones(const std::string& which) const {
  const std::string none;
  std::vector<uint64_t> out;
  for (auto& [key, r] : in_flight_)
    if (which.empty() || is_meant(which, r.named ? r.named->trace : none, key))
      out.push_back(key);
  auto shown =
    out.begin() + static_cast<std::ptrdiff_t>(std::min(out.size(), open_shown));
  std::partial_sort(out.begin(), shown, out.end());
  out.erase(shown, out.end());
  return out;
}

/// Reports open requests with the progress from their routers, and kept ones.
caf::result<request_list>
gateway_state::on_get_requests(const get_requests& request) {
  struct question {
    caf::typed_response_promise<request_list> promise;
    request_list answer;
    size_t asked = 0; ///< routers
  };
  auto time = now();
  auto mine = std::make_shared<question>();
  std::map<size_t, get_tracks> by_model;
  for (auto key : open_ones(request.which)) {
    auto& r = in_flight_.at(key);
    auto& story = mine->answer.requests.emplace_back(story_of(key, r));
    story.open = true;
    story.ago = to_us(time - r.arrived);
    by_model[r.model].keys.push_back(key);
  }
  for (auto& story : notable_.find(request.which, time))
    mine->answer.requests.push_back(std::move(story));
  if (by_model.empty())
    return std::move(mine->answer);
  mine->promise = self_->make_response_promise<request_list>();
  mine->asked = by_model.size();
  auto one_less = [mine] {
    if (--mine->asked == 0)
      mine->promise.deliver(std::move(mine->answer));
  };
  for (auto& [model, which] : by_model)
    self_->request(models_[model].router, 1s, which)
      .then(
        [mine, one_less](track_list& tracks) {
          for (auto& track : tracks.tracks)
            for (auto& story : mine->answer.requests)
              if (story.open && story.number == track.key)
                add_track(story, track);
          one_less();
        },
        [one_less](const caf::error&) { one_less(); });
  return mine->promise;
}

/// Adds the attempts of the router's outcome to a request that was answered
/// before.
void gateway_state::add_late(outcome& answer) {
  auto* story = notable_.find(answer.key);
  if (story == nullptr || story->attempts > 0 || !story->replica.empty())
    return;
  story->attempts = answer.attempts;
  story->queue = std::min(answer.queue, story->total);
  story->vain = std::move(answer.vain);
}

/// Records the attempts of a request that is retried, or is answered already.
void gateway_state::on_track(request_track& track) {
  if (auto i = in_flight_.find(track.key); i != in_flight_.end()) {
    i->second.attempts = track.attempts;
    i->second.vain = std::move(track.vain);
  } else if (auto* story = notable_.find(track.key)) {
    add_track(*story, track);
  }
}

} // namespace millrace
