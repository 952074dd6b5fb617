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
  version_name(std::string name) : std::string(std::move(name)) {}
  version_name(const char* name) : std::string(name) {}
};

/// Requests one forward pass of a model, or of the variant of an application
/// that the gateway's selection policy chooses.
struct infer {
  std::string model;
  version_name version; ///< empty: "default"
  std::string application;
  std::optional<double> accuracy;      ///< of the variant, at least
  std::optional<microseconds> latency; ///< of the variant, at most
  /// The request may run twice without harm: after the loss of a replica it
  /// runs again elsewhere. False: it is answered unavailable then.
  bool idempotent = true;
  std::vector<named_tensor> inputs; ///< named, or in the order of the signature
  MILLRACE_FIELDS(infer, model, version, application, accuracy, latency,
                  idempotent, inputs)
};

/// The one final answer to a request.
struct infer_reply {
  ec status = ec::internal;
  std::string error;           ///< value found and value expected
  microseconds retry_after{0}; ///< with overloaded
  std::string model;
  uint64_t version = 0;
  std::string replica; ///< replica that computed it, or failed to
  uint32_t batch = 0;  ///< requests in the batch
  // Parts of the total; the rest is transfer between the gateway and devices.
  microseconds queue{0};
  microseconds execute{0};
  microseconds total{0}; ///< in the gateway, from arrival to answer
  std::vector<named_tensor> outputs;
  microseconds gathered{0}; ///< part of `queue` during which a replica was free
  /// Part of `execute`: delay by other work on the devices.
  microseconds interference{0};
  MILLRACE_FIELDS(infer_reply, status, error, retry_after, model, version,
                  replica, batch, queue, execute, total, outputs, gathered,
                  interference)

  /// The values that an encoder may omit: no reply has this status, so each
  /// reply carries its status.
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

/// Requests the descriptions of models.
struct describe_models {
  std::string model; ///< empty: all
  MILLRACE_FIELDS(describe_models, model)
};

/// The models that a client may request.
struct model_list_reply {
  std::vector<model_info> models;
  MILLRACE_FIELDS(model_list_reply, models)
};

// -- inside a node ------------------------------------------------------------

/// Origin of a request: an endpoint, and a connection to it.
struct session {
  uint32_t endpoint = 0;
  std::string connection;
  MILLRACE_FIELDS(session, endpoint, connection)
  friend auto operator<=>(const session&, const session&) = default;
};

/// The client's id of a request, and how the answer is framed.
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
  bool taken = false; ///< by a gateway, which must answer it from then on
  MILLRACE_FIELDS(client_request, tag, due, priority, trace, request, taken)
};

/// Requests that came in one frame. When the last holder releases the group, in
/// any thread, the requests that no gateway has taken are answered as
/// unavailable. So the requests in the mailbox of a crashed gateway are
/// answered.
struct request_group {
  request_group(bus* net, session client) : via(net), from(std::move(client)) {}
  request_group(const request_group&) = delete;
  request_group& operator=(const request_group&) = delete;
  ~request_group();

  bus* via; ///< null: no answers. Outlives all actors of its node.
  session from;
  std::deque<client_request> requests; ///< elements never move
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

/// A connection has ended: its open requests need no answer.
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

/// The time that a replica had a request, measured by its router.
struct stay {
  std::string replica;
  microseconds took{0};
  MILLRACE_FIELDS(stay, replica, took)
};

/// An attempt to run a request that ended with a lost or failed replica.
struct vain_attempt {
  std::vector<stay> stays; ///< one per replica that had the request
  std::string why;         ///< "m.1.2 was lost"
  MILLRACE_FIELDS(vain_attempt, stays, why)
};

} // namespace millrace
