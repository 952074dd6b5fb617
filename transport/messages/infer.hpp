// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/safetensors.hpp"
#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"
#include "transport/messages/model.hpp"
#include "transport/messages/replica.hpp"

namespace millrace {

class bus;

// -- between a client and a gateway -------------------------------------------

/// A model's version: its number, or an alias. On the wire an integer or a
/// text.
struct version_name : std::string {
  version_name() = default;
  version_name(std::string x) : std::string(std::move(x)) {}
  version_name(const char* x) : std::string(x) {}
};

/// Asks for one forward pass. Names a model, or an application whose cheapest
/// fitting variant is then chosen.
struct infer {
  std::string model;
  version_name version; ///< empty: "default"
  std::string application;
  std::optional<double> accuracy;      ///< of the variant, at least
  std::optional<microseconds> latency; ///< of the variant, at most
  /// Running it twice does no harm, so what a lost replica may have run is run
  /// again elsewhere. False: it is answered unavailable instead.
  bool idempotent = true;
  std::vector<named_tensor> inputs; ///< in order, or named
  MILLRACE_FIELDS(infer, model, version, application, accuracy, latency,
                  idempotent, inputs)
};

/// The one final answer to a request.
struct infer_reply {
  ec status = ec::internal;
  std::string error;           ///< what was found and what was expected
  microseconds retry_after{0}; ///< with overloaded
  std::string model;
  uint64_t version = 0;
  std::string replica; ///< who computed it, or failed to
  uint32_t batch = 0;  ///< requests that were computed together
  // Parts of the total; the rest is transfer between the gateway and devices.
  microseconds queue{0};
  microseconds execute{0};
  microseconds total{0}; ///< in the gateway, from arrival to answer
  std::vector<named_tensor> outputs;
  microseconds gathered{0};     ///< of queue: a replica was free meanwhile
  microseconds interference{0}; ///< of execute: what neighbours on devices cost
  MILLRACE_FIELDS(infer_reply, status, error, retry_after, model, version,
                  replica, batch, queue, execute, total, outputs, gathered,
                  interference)

  /// Its status is in every answer.
  static infer_reply left_out() {
    infer_reply out;
    out.status = static_cast<ec>(0xff);
    return out;
  }
};

/// Stops waiting for the request with the header's id.
struct cancel {
  MILLRACE_FIELDS(cancel)
};

/// Asks what there is to ask for.
struct describe_models {
  std::string model; ///< empty: all
  MILLRACE_FIELDS(describe_models, model)
};

/// The models a client may ask for.
struct model_list_reply {
  std::vector<model_info> models;
  MILLRACE_FIELDS(model_list_reply, models)
};

// -- inside a node ------------------------------------------------------------

/// Who sent a request: which endpoint, and which connection to it.
struct session {
  uint32_t endpoint = 0;
  std::string connection;
  MILLRACE_FIELDS(session, endpoint, connection)
  friend auto operator<=>(const session&, const session&) = default;
};

/// A client's name for what it asks, and how it wants to be answered.
struct client_tag {
  uint64_t id = 0;
  bool grouped = false; ///< answers may share a frame, as the requests did
  MILLRACE_FIELDS(client_tag, id, grouped)
};

/// One decoded request.
struct client_request {
  client_tag tag;
  deadline due;
  int32_t priority = 0;
  std::string trace;
  infer request;
  bool taken = false; ///< by a gateway, which owes the answer from then on
  MILLRACE_FIELDS(client_request, tag, due, priority, trace, request, taken)
};

/// Requests that came in one frame. Those that no gateway has taken when the
/// last holder lets go, in whatever thread, are answered as unavailable: what
/// lies in the mailbox of a gateway that crashes is not lost.
struct request_group {
  request_group(bus* net, session x) : via(net), from(std::move(x)) {}
  request_group(const request_group&) = delete;
  request_group& operator=(const request_group&) = delete;
  ~request_group();

  bus* via; ///< null: nobody is answered. It outlives all actors of its node.
  session from;
  std::deque<client_request> requests; ///< which do not move
};

/// Requests on their way from the bus to the gateway.
struct client_requests {
  std::shared_ptr<request_group> group;
  MILLRACE_FIELDS(client_requests, group)
};

struct client_cancel {
  session from;
  uint64_t id = 0;
  MILLRACE_FIELDS(client_cancel, from, id)
};

/// A connection has ended: nobody waits for what it asked.
struct client_left {
  session from;
  MILLRACE_FIELDS(client_left, from)
};

struct client_describe {
  session from;
  client_tag tag;
  std::string model;
  MILLRACE_FIELDS(client_describe, from, tag, model)
};

/// A replica had a request for so long, from its router's point of view.
struct stay {
  std::string replica;
  microseconds took{0};
  MILLRACE_FIELDS(stay, replica, took)
};

/// A request was with replicas, one of which was lost or failed it.
struct vain_attempt {
  std::vector<stay> stays; ///< of a model in parts: with each that had it
  std::string why;         ///< "m.1.2 was lost"
  MILLRACE_FIELDS(vain_attempt, stays, why)
};

/// What a request went through before it was handed on.
struct request_past {
  microseconds waited{0};
  uint32_t attempts = 0; ///< times it was given to a replica
  uint32_t crashes = 0;  ///< times its model's process ended over it
  uint32_t suspect = 0;  ///< and times that it may have ended more
  bool alone = false;    ///< shares no batch: its last one failed or was lost
  std::vector<vain_attempt> vain;
  MILLRACE_FIELDS(request_past, waited, attempts, crashes, suspect, alone, vain)
};

/// An admitted request.
struct routed {
  uint64_t key = 0; ///< the gateway's
  deadline due;
  int32_t priority = 0;
  std::vector<tensor> inputs;
  uint64_t rows = 1;
  bool once = false;                ///< given to a replica once at most
  std::optional<request_past> past; ///< of one that was handed on
  MILLRACE_FIELDS(routed, key, due, priority, inputs, rows, once, past)
};

/// Gateway to router: admitted requests that came together.
struct route {
  std::vector<routed> requests;
  MILLRACE_FIELDS(route, requests)
};

/// Gateway to router: forget it, nobody waits any more. Answered by a
/// request_track where it has it.
struct cancel_request {
  uint64_t key = 0;
  MILLRACE_FIELDS(cancel_request, key)
};

/// How far a request got that its router has no result of.
struct request_track {
  uint64_t key = 0;
  uint32_t attempts = 0;
  microseconds queue{0}; ///< until it was given to a replica, if it was
  std::vector<vain_attempt> vain;
  std::vector<stay> stays; ///< the last is, or was, where it is
  MILLRACE_FIELDS(request_track, key, attempts, queue, vain, stays)
};

/// Gateway to router, for people: how far are these?
struct get_tracks {
  std::vector<uint64_t> keys;
  MILLRACE_FIELDS(get_tracks, keys)
};

/// Of those that it has.
struct track_list {
  std::vector<request_track> tracks;
  MILLRACE_FIELDS(track_list, tracks)
};

/// Gateway to router: hand back all requests that wait. With `closed` also
/// those that come later, until a replica is ready; without it later ones wait.
struct drain_queue {
  bool closed = false;
  MILLRACE_FIELDS(drain_queue, closed)
};

/// Router to gateway: what waited in vain.
struct requests_returned {
  std::vector<routed> requests;
  MILLRACE_FIELDS(requests_returned, requests)
};

/// Router to gateway, whenever that changes: whether its replicas lead through
/// all of the model, so that requests can be answered.
struct model_availability {
  bool open = false;
  MILLRACE_FIELDS(model_availability, open)
};

/// What became of a request.
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

/// Router to gateway: what became of requests; those computed together in one
/// message.
struct requests_completed {
  std::string replica; ///< empty where none computed them
  microseconds execute{0};
  std::vector<stage_visit> visits; ///< of a model in parts: all stages
  std::vector<outcome> outcomes;
  microseconds interference{0}; ///< as in infer_reply
  MILLRACE_FIELDS(requests_completed, replica, execute, visits, outcomes,
                  interference)
};

} // namespace millrace
