// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What people ask to see inside a running node, and the answers.

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

/// Which time is it? Whoever knows how long the answer took knows how far apart
/// the clocks are.
struct get_clock {
  MILLRACE_FIELDS(get_clock)
};
struct clock_reading {
  microseconds monotonic{0}; ///< what spans are timed by
  microseconds wall{0};      ///< since 1970
  MILLRACE_FIELDS(clock_reading, monotonic, wall)
};

/// What happened to a node, this life and the one before.
struct get_events {
  uint64_t last = 100; ///< so many at most
  MILLRACE_FIELDS(get_events, last)
};
struct event_list {
  std::vector<kept_event> events; ///< the oldest first
  MILLRACE_FIELDS(event_list, events)
};

/// Logs events from this level on.
struct set_log {
  log_level level = log_level::info;
  MILLRACE_FIELDS(set_log, level)
};

/// How is the host?
struct examine {
  MILLRACE_FIELDS(examine)
};
struct examination {
  std::string version; ///< of Millrace
  std::vector<finding> findings;
  MILLRACE_FIELDS(examination, version, findings)
};

/// Keep spans from now on, for so long and so many at most. What was kept
/// before is forgotten.
struct record_spans {
  microseconds longest{1'000'000};
  uint64_t most = 20'000;
  MILLRACE_FIELDS(record_spans, longest, most)
};

/// The spans that are kept, from a place on.
struct get_spans {
  uint64_t first = 0;
  MILLRACE_FIELDS(get_spans, first)
};
struct span_list {
  std::vector<span> spans; ///< some; the next are asked for
  uint64_t kept = 0;       ///< in all
  uint64_t lost = 0;       ///< there was no room for
  MILLRACE_FIELDS(span_list, spans, kept, lost)
};

/// What waits for a model? To its routers.
struct get_queue {
  MILLRACE_FIELDS(get_queue)
};

/// A replica as a router sees it.
struct served_replica {
  std::string replica;
  uint64_t credit = 0; ///< batches it would take now
  uint64_t batches = 0;
  uint64_t requests = 0; ///< in these
  bool draining = false;
  layer_range layers; ///< that it has
  /// Of its batches, those that have no replica to go to yet.
  uint64_t unbound = 0;
  MILLRACE_FIELDS(served_replica, replica, credit, batches, requests, draining,
                  layers, unbound)
};

struct queue_status {
  std::string model;
  uint64_t version = 0;
  uint64_t waiting = 0;
  uint64_t most = 0;        ///< that may wait
  microseconds oldest{0};   ///< has waited so long
  uint64_t running = 0;     ///< given to replicas
  microseconds expected{0}; ///< from being given to a replica to its answer
  uint64_t poisons = 0;     ///< inputs that are not run any more
  uint64_t layers = 1;      ///< of the model
  std::vector<served_replica> replicas;
  MILLRACE_FIELDS(queue_status, model, version, waiting, most, oldest, running,
                  expected, poisons, layers, replicas)
};

/// What became of a request? To a gateway. Which: its trace id, or the
/// gateway's number of it; empty: those that are open (the oldest first), and
/// those that are remembered.
struct get_requests {
  std::string which;
  MILLRACE_FIELDS(get_requests, which)
};

/// What a gateway remembers of a request.
struct request_story {
  uint64_t number = 0; ///< the gateway's
  std::string trace;   ///< the client's name for it
  std::string tenant;
  std::string asked; ///< for a model, or for an application and how good
  std::string model;
  uint64_t version = 0;
  bool open = false;        ///< not answered yet
  ec status = ec::internal; ///< its answer
  std::string error;
  std::string replica;
  uint64_t batch = 0;    ///< requests that were computed together
  uint64_t attempts = 0; ///< times it was given to a replica; 0: not known
  microseconds ago{0};   ///< since it arrived
  microseconds queue{0};
  microseconds execute{0};
  microseconds total{0};
  microseconds deadline{0}; ///< it had so long
  /// Of a model in parts: the stages it passed through.
  std::vector<stage_visit> visits;
  std::vector<vain_attempt> vain;
  std::vector<stay> stays; ///< of one without a result, as in request_track
  MILLRACE_FIELDS(request_story, number, trace, tenant, asked, model, version,
                  open, status, error, replica, batch, attempts, ago, queue,
                  execute, total, deadline, visits, vain, stays)
};

struct request_list {
  std::vector<request_story> requests;
  MILLRACE_FIELDS(request_list, requests)
};

} // namespace millrace
