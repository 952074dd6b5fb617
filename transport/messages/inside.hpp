// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Queries of operators about a running node, and their answers.

#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/event_memory.hpp"
#include "runtime/fields.hpp"
#include "runtime/host_examination.hpp"
#include "runtime/spans.hpp"
#include "runtime/time.hpp"
#include "transport/messages/infer.hpp"
#include "transport/messages/replica.hpp"

namespace millrace {

/// Requests the clocks of a node. The requester derives the offset between two
/// clocks from the duration of the round trip.
struct get_clock {
  MILLRACE_FIELDS(get_clock)
};
struct clock_reading {
  microseconds monotonic{0}; ///< clock of the spans
  microseconds wall{0};      ///< since 1970
  MILLRACE_FIELDS(clock_reading, monotonic, wall)
};

/// Requests the events of a node, from this run and the one before.
struct get_events {
  uint64_t last = 100; ///< number of events, at most
  MILLRACE_FIELDS(get_events, last)
};
struct event_list {
  std::vector<kept_event> events; ///< the oldest first
  MILLRACE_FIELDS(event_list, events)
};

/// Sets the lowest level of events that are logged.
struct set_log {
  log_level level = log_level::info;
  MILLRACE_FIELDS(set_log, level)
};

/// Requests an examination of the host.
struct examine {
  MILLRACE_FIELDS(examine)
};
struct examination {
  std::string version; ///< of Millrace
  std::vector<finding> findings;
  MILLRACE_FIELDS(examination, version, findings)
};

/// Records spans from now on, up to a time and a number. Drops those recorded
/// before.
struct record_spans {
  microseconds longest{1'000'000};
  uint64_t most = 20'000;
  MILLRACE_FIELDS(record_spans, longest, most)
};

/// Requests the recorded spans, from a position on.
struct get_spans {
  uint64_t first = 0;
  MILLRACE_FIELDS(get_spans, first)
};
struct span_list {
  std::vector<span> spans; ///< a part; get_spans requests the next
  uint64_t kept = 0;       ///< number of recorded spans
  uint64_t lost = 0;       ///< number of spans dropped for lack of room
  MILLRACE_FIELDS(span_list, spans, kept, lost)
};

/// To the routers of a model: requests the state of their queues.
struct get_queue {
  MILLRACE_FIELDS(get_queue)
};

/// A replica as a router sees it.
struct served_replica {
  std::string replica;
  uint64_t credit = 0; ///< batches that it can take now
  uint64_t batches = 0;
  uint64_t requests = 0; ///< in these
  bool draining = false;
  layer_range layers; ///< that it has
  /// Its batches without a replica for the next stage.
  uint64_t unbound = 0;
  MILLRACE_FIELDS(served_replica, replica, credit, batches, requests, draining,
                  layers, unbound)
};

struct queue_status {
  std::string model;
  uint64_t version = 0;
  uint64_t waiting = 0;
  uint64_t most = 0;      ///< limit of `waiting`
  microseconds oldest{0}; ///< waiting time of the oldest request
  uint64_t running = 0;   ///< requests that replicas have
  /// From a replica's receipt of a request to the answer.
  microseconds expected{0};
  uint64_t poisons = 0; ///< inputs that are refused as poison
  uint64_t layers = 1;  ///< of the model
  std::vector<served_replica> replicas;
  MILLRACE_FIELDS(queue_status, model, version, waiting, most, oldest, running,
                  expected, poisons, layers, replicas)
};

/// To a gateway: requests the history of requests. `which` is a trace id, or
/// the gateway's number of a request. Empty: the open requests (the oldest
/// first), then the finished ones that the gateway remembers.
struct get_requests {
  std::string which;
  MILLRACE_FIELDS(get_requests, which)
};

/// The gateway's record of a request.
struct request_story {
  uint64_t number = 0; ///< assigned by the gateway
  std::string trace;   ///< trace id from the client
  std::string tenant;
  std::string asked; ///< model, or application with its requirements
  std::string model;
  uint64_t version = 0;
  bool open = false;        ///< not answered yet
  ec status = ec::internal; ///< its answer
  std::string error;
  std::string replica;
  uint64_t batch = 0;    ///< requests in the batch
  uint64_t attempts = 0; ///< times that a replica received it; 0: not known
  microseconds ago{0};   ///< since it arrived
  microseconds queue{0};
  microseconds execute{0};
  microseconds total{0};
  microseconds deadline{0}; ///< from arrival to deadline
  /// For a model in parts: the stages that it passed through.
  std::vector<stage_visit> visits;
  std::vector<vain_attempt> vain;
  std::vector<stay> stays; ///< without a result, as in request_track
  MILLRACE_FIELDS(request_story, number, trace, tenant, asked, model, version,
                  open, status, error, replica, batch, attempts, ago, queue,
                  execute, total, deadline, visits, vain, stays)
};

struct request_list {
  std::vector<request_story> requests;
  MILLRACE_FIELDS(request_list, requests)
};

} // namespace millrace
