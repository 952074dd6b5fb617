// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Messages between a gateway and its routers, in one process.

#include <optional>
#include <string>
#include <vector>

#include "transport/messages/infer.hpp"

namespace millrace {

/// History of a request before a router handed it back.
struct request_past {
  microseconds waited{0};
  uint32_t attempts = 0; ///< times that a replica received it
  uint32_t crashes = 0;  ///< times that it ended its model's process
  uint32_t suspect = 0;  ///< `crashes`, and possible crashes
  /// Must not share a batch: its last one failed or was lost.
  bool alone = false;
  std::vector<vain_attempt> vain;
  MILLRACE_FIELDS(request_past, waited, attempts, crashes, suspect, alone, vain)
};

/// An admitted request.
struct routed {
  uint64_t key = 0; ///< the gateway's number of the request
  deadline due;
  int32_t priority = 0;
  std::vector<tensor> inputs;
  uint64_t rows = 1;
  bool once = false;                ///< at most one replica receives it
  std::optional<request_past> past; ///< if a router handed it back
  MILLRACE_FIELDS(routed, key, due, priority, inputs, rows, once, past)
};

/// Gateway to router: admitted requests that arrived together.
struct route {
  std::vector<routed> requests;
  MILLRACE_FIELDS(route, requests)
};

/// Gateway to router: drop the request, its answer is not needed. Answered by a
/// request_track if the router has the request.
struct cancel_request {
  uint64_t key = 0;
  MILLRACE_FIELDS(cancel_request, key)
};

/// Gateway to router: return all waiting requests. With `closed` also those
/// that come later, until a replica is ready; without it later ones wait.
struct drain_queue {
  bool closed = false;
  MILLRACE_FIELDS(drain_queue, closed)
};

/// Router to gateway: waiting requests that the router could not run.
struct requests_returned {
  std::vector<routed> requests;
  MILLRACE_FIELDS(requests_returned, requests)
};

/// Router to gateway, at each change: whether its replicas cover all layers of
/// the model, so that requests can be answered.
struct model_availability {
  bool open = false;
  MILLRACE_FIELDS(model_availability, open)
};

/// Result of a request.
struct outcome {
  uint64_t key = 0;
  ec status = ec::internal;
  std::string text;
  microseconds retry_after{0};
  std::vector<tensor> outputs;
  microseconds queue{0};
  uint32_t attempts = 0; ///< times it was given to a replica
  std::vector<vain_attempt> vain;
  microseconds gathered{0}; ///< as in infer_reply
  MILLRACE_FIELDS(outcome, key, status, text, retry_after, outputs, queue,
                  attempts, vain, gathered)
};

/// Router to gateway: results of requests. Requests of one batch share a
/// message.
struct requests_completed {
  std::string replica; ///< empty: no replica computed them
  microseconds execute{0};
  std::vector<stage_visit> visits; ///< for a model in parts: all stages
  std::vector<outcome> outcomes;
  microseconds interference{0}; ///< as in infer_reply
  MILLRACE_FIELDS(requests_completed, replica, execute, visits, outcomes,
                  interference)
};

/// Progress of a request without a result.
struct request_track {
  uint64_t key = 0;
  uint32_t attempts = 0;
  microseconds queue{0}; ///< until a replica received it, if one did
  std::vector<vain_attempt> vain;
  std::vector<stay> stays; ///< the last one is the current or last replica
  MILLRACE_FIELDS(request_track, key, attempts, queue, vain, stays)
};

/// Gateway to router, for operators: requests the progress of these requests.
struct get_tracks {
  std::vector<uint64_t> keys;
  MILLRACE_FIELDS(get_tracks, keys)
};

/// The requests that the router has, of the requested ones.
struct track_list {
  std::vector<request_track> tracks;
  MILLRACE_FIELDS(track_list, tracks)
};

/// Gateway to router and back: how many requests wait.
struct get_backlog {
  MILLRACE_FIELDS(get_backlog)
};
struct backlog {
  uint64_t waiting = 0;
  microseconds oldest{0};
  MILLRACE_FIELDS(backlog, waiting, oldest)
};

} // namespace millrace
