// SPDX-License-Identifier: Apache-2.0
#include "simulator/invariants.hpp"

#include <cstring>
#include <map>
#include <set>

#include "runtime/units.hpp"
#include "simulator/ledger.hpp"
#include "simulator/message_body.hpp"
#include "simulator/model.hpp"
#include "simulator/simulation.hpp"

namespace millrace::simulator {

namespace {

/// Limit for executions of a request and posts to replicas. Not read from the
/// router, because the router is under test.
constexpr size_t most_executions = 2;

/// How long after its deadline a request must be answered, whatever failed
/// (P1).
constexpr microseconds grace = 250ms;

/// "request 17".
std::string named(uint64_t id) {
  return "request " + std::to_string(id);
}

/// I1: An accepted request gets exactly one answer.
class one_answer : public invariant {
public:
  explicit one_answer(const ledger& l) : invariant("I1"), ledger_(l) {}

  void on_answered(const member& gateway, uint64_t id, const infer_reply& reply,
                   timestamp when) override {
    if (!answered_.insert(id).second)
      broken(when, gateway.name + " answers " + named(id) + " again, as "
                     + std::string{to_string(reply.status)});
  }
  void on_reply(const session&, uint64_t id, const infer_reply& reply,
                timestamp when) override {
    if (auto* r = ledger_.find(id); r != nullptr && r->answers > 1)
      broken(when, named(id) + " is answered again, as "
                     + std::string{to_string(reply.status)});
  }

  void at_end(simulation& run) override {
    for (auto& [id, r] : ledger_.requests())
      if (r.answers == 0 && !r.cut_short)
        broken(run.inside().world().now(),
               named(id) + " to " + r.sent.gateway + " was never answered");
  }

private:
  const ledger& ledger_;
  std::set<uint64_t> answered_; ///< answered by their gateways
};

/// Whether this model may answer the request: the requested model, or a variant
/// of the requested application.
bool is_asked(const sent_request& x, const std::string& model,
              const scenario& what) {
  if (!x.model.empty())
    return model == x.model;
  auto i = what.bundles.find(model);
  return i != what.bundles.end() && i->second.application == x.application;
}

/// The target of a request: "first", or "the application both".
std::string asked_by(const sent_request& x) {
  return x.model.empty() ? "the application " + x.application : x.model;
}

/// I2: An answer goes to the client that sent the request, and is computed from
/// the request's inputs.
class right_answer : public invariant {
public:
  right_answer(const ledger& l, const expectations& x)
    : invariant("I2"),
      ledger_(l),
      what_(x.what->spec) {}

  void on_reply(const session& to, uint64_t id, const infer_reply& reply,
                timestamp when) override {
    auto* r = ledger_.find(id);
    if (r == nullptr)
      return;
    if (to != r->sent.from)
      broken(when, named(id) + " of " + r->sent.from.connection
                     + " is answered to " + to.connection);
    if (reply.status != ec::ok)
      return;
    uint64_t mark = 0;
    if (!reply.outputs.empty()
        && reply.outputs[0].value.data.size() >= sizeof mark)
      std::memcpy(&mark, reply.outputs[0].value.data.data(), sizeof mark);
    if (mark != id)
      broken(when,
             named(id) + " is answered with the result of " + named(mark));
    if (!is_asked(r->sent, reply.model, what_))
      broken(when, named(id) + " asked " + asked_by(r->sent)
                     + " and is answered by " + reply.model);
  }

private:
  const ledger& ledger_;
  const scenario& what_;
};

/// I3: A gateway answers only requests that it has read, over connections that
/// exist; and only cancelled requests with status cancelled.
class asked_for : public invariant {
public:
  explicit asked_for(const ledger& l) : invariant("I3"), ledger_(l) {}

  void on_answered(const member& gateway, uint64_t id, const infer_reply& reply,
                   timestamp when) override {
    auto* r = ledger_.find(id);
    if (r != nullptr && !r->read)
      broken(when, gateway.name + " answers " + named(id)
                     + ", which it has not read");
    if (r != nullptr && !r->cancelled && reply.status == ec::cancelled)
      broken(when, gateway.name + " answers that " + named(id)
                     + " was cancelled, without a cancel message");
  }
  void on_reply(const session&, uint64_t id, const infer_reply&,
                timestamp when) override {
    auto* r = ledger_.find(id);
    if (r == nullptr)
      broken(when, named(id) + " is answered, but was never sent");
    else if (r->cut_short)
      broken(when, named(id) + " is answered on a broken connection");
  }

private:
  const ledger& ledger_;
};

/// I4: A request is answered by its deadline plus a grace; a success never
/// comes after the deadline.
class in_time : public invariant {
public:
  in_time(const ledger& l, const expectations& x)
    : invariant("I4"),
      ledger_(l),
      what_(*x.what) {}

  void on_answered(const member& gateway, uint64_t id, const infer_reply& reply,
                   timestamp when) override {
    auto* r = ledger_.find(id);
    if (r == nullptr || !r->read)
      return;
    auto due = r->sent.due;
    if (due == far_future)
      due = *r->read + longest(r->sent);
    auto late = " " + format_duration(when - due) + " after its deadline";
    if (reply.status == ec::ok && when > due)
      broken(when, named(id) + " is a success" + late);
    // The grace starts when the gateway can act: after it has read the request,
    // and while it is not paused.
    auto able = std::max({due, *r->read, woken_[gateway.name]});
    if (when > able + grace)
      broken(when, named(id) + " is settled" + late);
  }

  void on_node(const std::string& node, std::string_view what,
               timestamp when) override {
    if (what == "resumed")
      woken_[node] = when;
  }

private:
  /// The longest deadline of the models that may answer.
  microseconds longest(const sent_request& x) const {
    microseconds out{0};
    for (auto& m : what_.spec.models)
      if (is_asked(x, m.model, what_.spec))
        out = std::max(out, m.policy.deadline);
    return out;
  }

  const ledger& ledger_;
  const loaded_scenario& what_;
  std::map<std::string, timestamp> woken_; ///< when the gateway last continued
                                           ///< from a pause
};

/// I5: A request is executed at most twice.
class few_executions : public invariant {
public:
  explicit few_executions(const ledger& l) : invariant("I5"), ledger_(l) {}

  void on_posted(const member& from, const member& to, const wire_message&,
                 timestamp when) override {
    for (auto id : ledger_.batch())
      if (auto* r = ledger_.find(id);
          r != nullptr && r->posted > most_executions)
        broken(when, from.name + " gives " + named(id)
                       + " to a replica for the " + std::to_string(r->posted)
                       + "rd time, to one on " + to.name);
  }
  void on_given(const given_batch& batch, timestamp when) override {
    for (auto id : batch.requests)
      if (auto* r = ledger_.find(id); r != nullptr)
        if (r->given > most_executions)
          broken(when, named(id) + " is executed for the "
                         + std::to_string(r->given) + "rd time");
  }

private:
  const ledger& ledger_;
};

/// I6: A request that is settled (cancelled, too late) is given to no replica.
class not_again : public invariant {
public:
  explicit not_again(const ledger& l) : invariant("I6"), ledger_(l) {}

  void on_posted(const member& from, const member&, const wire_message&,
                 timestamp when) override {
    for (auto id : ledger_.batch()) {
      auto* r = ledger_.find(id);
      if (r == nullptr || r->sent.gateway != from.name)
        continue;
      // Two messages at the same time may arrive in any order.
      if (r->cancelled && *r->cancelled < when)
        broken(when, named(id) + " was cancelled "
                       + format_duration(when - *r->cancelled)
                       + " ago and is given to a replica");
      else if (r->settled && *r->settled < when)
        broken(when, named(id) + " was settled "
                       + format_duration(when - *r->settled)
                       + " ago and is given to a replica");
    }
  }

private:
  const ledger& ledger_;
};

/// I8: A refused request is not executed.
class refused_is_refused : public invariant {
public:
  explicit refused_is_refused(const ledger& l) : invariant("I8"), ledger_(l) {}

  void on_answered(const member&, uint64_t id, const infer_reply& reply,
                   timestamp when) override {
    auto* r = ledger_.find(id);
    if (r != nullptr && refused(reply.status) && r->posted > 0)
      broken(when, named(id) + " was executed and is answered "
                     + std::string{to_string(reply.status)});
  }
  void on_given(const given_batch& batch, timestamp when) override {
    for (auto id : batch.requests)
      if (auto* r = ledger_.find(id); r != nullptr)
        if (r->answers > 0 && refused(r->status))
          broken(when, named(id) + " was answered "
                         + std::string{to_string(r->status)}
                         + " and is executed");
  }

private:
  static bool refused(ec x) {
    return x == ec::bad_request || x == ec::unknown_model || x == ec::forbidden
           || x == ec::too_large || x == ec::overloaded;
  }

  const ledger& ledger_;
};

/// I13: Gateways, queues, batches and replicas hold at most as many requests as
/// they may.
class bounded : public invariant {
public:
  bounded(const ledger& l, const expectations& x)
    : invariant("I13"),
      ledger_(l),
      what_(*x.what) {}

  void on_read(const member& gateway, uint64_t id, timestamp when) override {
    // Requests read at this very moment may still be refused.
    auto held = ledger_.held(gateway.name, when);
    auto most = what_.cluster.gateway.max_requests;
    if (held > most)
      broken(when, gateway.name + " holds " + std::to_string(held)
                     + " requests of at most " + std::to_string(most));
    auto bytes = ledger_.held_bytes(gateway.name, when);
    auto most_bytes = what_.cluster.gateway.max_bytes.value;
    if (bytes > most_bytes)
      broken(when, gateway.name + " holds " + format_bytes(bytes)
                     + " of requests, of at most " + format_bytes(most_bytes));
    auto* r = ledger_.find(id);
    for (auto& m : what_.spec.models) {
      if (r == nullptr || m.model != r->sent.model)
        continue;
      auto waiting = ledger_.waiting(gateway.name, m.model, when);
      if (waiting > m.policy.queue)
        broken(when, gateway.name + " queues " + std::to_string(waiting)
                       + " requests to " + m.model + " of at most "
                       + std::to_string(m.policy.queue));
    }
  }

  void on_posted(const member& from, const member& to, const wire_message& what,
                 timestamp when) override {
    if (auto taken = body_of<batch_accepted>(what)) {
      if (what.head.to.find("/router/") != std::string::npos)
        move_on(to, what, taken->id, when);
      return; // or a receipt for the stage before
    }
    auto& ids = ledger_.batch();
    if (ids.empty())
      return;
    auto* first = ledger_.find(ids.front());
    uint64_t rows = 0;
    for (auto id : ids)
      if (auto* r = ledger_.find(id))
        rows += what_.spec.workload[r->sent.part].rows;
    // A batch of a single request may exceed the limit of rows.
    for (auto& m : what_.spec.models)
      if (first != nullptr && m.model == first->sent.model
          && rows > m.policy.batch && ids.size() > 1)
        broken(when, from.name + " sends a batch of " + std::to_string(rows)
                       + " rows to " + m.model + ", of at most "
                       + std::to_string(m.policy.batch));
    if (ledger_.number() != 0)
      at_[{what.head.from, ledger_.number()}] = what.head.to;
    give(from.name, what.head.to, when);
  }

  void on_delivered(const member&, const member& to, const header& what,
                    timestamp) override {
    if (what.t == replica_ready::record_name())
      given_[to.name].erase(what.from); // a new credit from the replica
    if (what.t == batch_done::record_name()
        || what.t == batch_not_found::record_name())
      take_back(to.name, what.from);
  }

private:
  void give(const std::string& gateway, const std::string& replica,
            timestamp when) {
    auto n = ++given_[gateway][replica];
    auto most = most_at(replica);
    if (n > most)
      broken(when, gateway + " has given " + replica + " " + std::to_string(n)
                     + " batches, of at most " + std::to_string(most));
  }

  void take_back(const std::string& gateway, const std::string& replica) {
    if (auto& n = given_[gateway][replica]; n > 0)
      --n;
  }

  /// The replica of the next stage reports to the router that it has the batch.
  void move_on(const member& gateway, const wire_message& what, uint64_t id,
               timestamp when) {
    auto& at = at_[{what.head.to, id}];
    take_back(gateway.name, at);
    at = what.head.from;
    give(gateway.name, at, when);
  }

  /// The sum of credits that a replica gives: "NODE/replica/MODEL.1.1".
  uint64_t most_at(const std::string& replica) const {
    uint64_t lanes = 0, out = 0;
    auto node = replica.substr(0, replica.find('/'));
    for (auto& d : what_.cluster.nodes.at(node).devices)
      lanes = std::max<uint64_t>(lanes, d.lanes);
    auto name = replica.substr(replica.rfind('/') + 1);
    for (auto& m : what_.spec.models)
      if (name.starts_with(m.model + "."))
        out = std::max(out, (m.concurrency == 0 ? lanes : m.concurrency)
                              + m.policy.overlap + m.policy.held);
    return out;
  }

  const ledger& ledger_;
  const loaded_scenario& what_;
  /// Number of batches by gateway and replica.
  std::map<std::string, std::map<std::string, uint64_t>> given_;
  /// The replica that has a batch of a model in stages, by router and number.
  std::map<std::pair<std::string, uint64_t>, std::string> at_;
};

/// I15: A request is executed by the model that it requested.
class right_model : public invariant {
public:
  right_model(const ledger& l, const expectations& x)
    : invariant("I15"),
      ledger_(l),
      what_(x.what->spec) {}

  void on_given(const given_batch& batch, timestamp when) override {
    for (auto id : batch.requests) {
      auto* r = ledger_.find(id);
      if (r != nullptr && !is_asked(r->sent, batch.model, what_))
        broken(when, named(id) + " asked " + asked_by(r->sent)
                       + " and is run by " + batch.model);
    }
  }

private:
  const ledger& ledger_;
  const scenario& what_;
};

} // namespace

void add_request_invariants(const ledger& l, const expectations& expected,
                            invariant_list& out) {
  out.push_back(std::make_unique<one_answer>(l));
  out.push_back(std::make_unique<right_answer>(l, expected));
  out.push_back(std::make_unique<asked_for>(l));
  out.push_back(std::make_unique<in_time>(l, expected));
  out.push_back(std::make_unique<few_executions>(l));
  out.push_back(std::make_unique<not_again>(l));
  out.push_back(std::make_unique<refused_is_refused>(l));
  out.push_back(std::make_unique<bounded>(l, expected));
  out.push_back(std::make_unique<right_model>(l, expected));
}

} // namespace millrace::simulator
