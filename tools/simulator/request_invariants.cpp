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

/// Executions of one request, and posts to a replica, that promises allow: not
/// what the router says, which is what is checked.
constexpr size_t most_executions = 2;

/// How long after its deadline a request is settled, whatever died (P1).
constexpr microseconds grace = 250ms;

/// "request 17".
std::string named(uint64_t id) {
  return "request " + std::to_string(id);
}

/// An accepted request gets exactly one answer.
class one_answer : public invariant {
public:
  explicit one_answer(const ledger& l) : invariant("I1"), ledger_(l) {}

  void on_answered(const member& gateway, uint64_t id, const infer_reply& x,
                   timestamp when) override {
    if (!answered_.insert(id).second)
      broken(when, gateway.name + " answers " + named(id) + " again, as "
                     + std::string{to_string(x.status)});
  }
  void on_reply(const session&, uint64_t id, const infer_reply& x,
                timestamp when) override {
    if (auto* r = ledger_.find(id); r != nullptr && r->answers > 1)
      broken(when, named(id) + " is answered again, as "
                     + std::string{to_string(x.status)});
  }

  void at_end(simulation& x) override {
    for (auto& [id, r] : ledger_.requests())
      if (r.answers == 0 && !r.cut_short)
        broken(x.inside().world().now(),
               named(id) + " to " + r.sent.gateway + " was never answered");
  }

private:
  const ledger& ledger_;
  std::set<uint64_t> answered_; ///< by their gateways
};

/// Whether that model may answer a request: the one that was asked, or a
/// variant of the application.
bool is_asked(const sent_request& x, const std::string& model,
              const scenario& what) {
  if (!x.model.empty())
    return model == x.model;
  auto i = what.bundles.find(model);
  return i != what.bundles.end() && i->second.application == x.application;
}

/// "first", or "the application both".
std::string asked_by(const sent_request& x) {
  return x.model.empty() ? "the application " + x.application : x.model;
}

/// An answer goes to who asked, and is the answer to what was asked.
class right_answer : public invariant {
public:
  right_answer(const ledger& l, const expectations& x)
    : invariant("I2"),
      ledger_(l),
      what_(x.what->spec) {}

  void on_reply(const session& to, uint64_t id, const infer_reply& x,
                timestamp when) override {
    auto* r = ledger_.find(id);
    if (r == nullptr)
      return;
    if (to != r->sent.from)
      broken(when, named(id) + " of " + r->sent.from.connection
                     + " is answered to " + to.connection);
    if (x.status != ec::ok)
      return;
    uint64_t mark = 0;
    if (!x.outputs.empty() && x.outputs[0].value.data.size() >= sizeof mark)
      std::memcpy(&mark, x.outputs[0].value.data.data(), sizeof mark);
    if (mark != id)
      broken(when,
             named(id) + " is answered with the result of " + named(mark));
    if (!is_asked(r->sent, x.model, what_))
      broken(when, named(id) + " asked " + asked_by(r->sent)
                     + " and is answered by " + x.model);
  }

private:
  const ledger& ledger_;
  const scenario& what_;
};

/// Nobody is answered who did not ask, or cannot hear; nobody is told of a
/// cancellation who did not cancel.
class asked_for : public invariant {
public:
  explicit asked_for(const ledger& l) : invariant("I3"), ledger_(l) {}

  void on_answered(const member& gateway, uint64_t id, const infer_reply& x,
                   timestamp when) override {
    auto* r = ledger_.find(id);
    if (r != nullptr && !r->read)
      broken(when, gateway.name + " answers " + named(id)
                     + ", which it has not read");
    if (r != nullptr && !r->cancelled && x.status == ec::cancelled)
      broken(when, gateway.name + " answers that " + named(id)
                     + " was cancelled, which nobody did");
  }
  void on_reply(const session&, uint64_t id, const infer_reply&,
                timestamp when) override {
    auto* r = ledger_.find(id);
    if (r == nullptr)
      broken(when, named(id) + " is answered, which nobody sent");
    else if (r->cut_short)
      broken(when, named(id) + " is answered on a broken connection");
  }

private:
  const ledger& ledger_;
};

/// Settled by the deadline; a success is never later than it.
class in_time : public invariant {
public:
  in_time(const ledger& l, const expectations& x)
    : invariant("I4"),
      ledger_(l),
      what_(*x.what) {}

  void on_answered(const member& gateway, uint64_t id, const infer_reply& x,
                   timestamp when) override {
    auto* r = ledger_.find(id);
    if (r == nullptr || !r->read)
      return;
    auto due = r->sent.due;
    if (due == far_future)
      due = *r->read + longest(r->sent);
    auto late = " " + format_duration(when - due) + " after its deadline";
    if (x.status == ec::ok && when > due)
      broken(when, named(id) + " is a success" + late);
    // It cannot settle what it has not read, nor anything while it sleeps.
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
  /// The deadline of the models that may answer.
  microseconds longest(const sent_request& x) const {
    microseconds out{0};
    for (auto& m : what_.spec.models)
      if (is_asked(x, m.model, what_.spec))
        out = std::max(out, m.policy.deadline);
    return out;
  }

  const ledger& ledger_;
  const loaded_scenario& what_;
  std::map<std::string, timestamp> woken_; ///< last
};

/// A request is executed twice at most.
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
  void on_given(const given_batch& x, timestamp when) override {
    for (auto id : x.requests)
      if (auto* r = ledger_.find(id); r != nullptr)
        if (r->given > most_executions)
          broken(when, named(id) + " is executed for the "
                         + std::to_string(r->given) + "rd time");
  }

private:
  const ledger& ledger_;
};

/// What is settled (cancelled, too late) is given to no replica any more.
class not_again : public invariant {
public:
  explicit not_again(const ledger& l) : invariant("I6"), ledger_(l) {}

  void on_posted(const member& from, const member&, const wire_message&,
                 timestamp when) override {
    for (auto id : ledger_.batch()) {
      auto* r = ledger_.find(id);
      if (r == nullptr || r->sent.gateway != from.name)
        continue;
      // At the very moment the one message may be before the other.
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

/// What is refused is not executed.
class refused_is_refused : public invariant {
public:
  explicit refused_is_refused(const ledger& l) : invariant("I8"), ledger_(l) {}

  void on_answered(const member&, uint64_t id, const infer_reply& x,
                   timestamp when) override {
    auto* r = ledger_.find(id);
    if (r != nullptr && refused(x.status) && r->posted > 0)
      broken(when, named(id) + " was executed and is answered "
                     + std::string{to_string(x.status)});
  }
  void on_given(const given_batch& x, timestamp when) override {
    for (auto id : x.requests)
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

/// Nobody's requests pile up: gateways, queues, batches and replicas hold what
/// they may.
class bounded : public invariant {
public:
  bounded(const ledger& l, const expectations& x)
    : invariant("I13"),
      ledger_(l),
      what_(*x.what) {}

  void on_read(const member& gateway, uint64_t id, timestamp when) override {
    // What was read at this very moment may be about to be refused.
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
      return; // or a receipt, for the part before
    }
    auto& ids = ledger_.batch();
    if (ids.empty())
      return;
    auto* first = ledger_.find(ids.front());
    uint64_t rows = 0;
    for (auto id : ids)
      if (auto* r = ledger_.find(id))
        rows += what_.spec.workload[r->sent.part].rows;
    for (auto& m : what_.spec.models) // one request may be as large as it is
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
      given_[to.name].erase(what.from); // a new promise of room
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

  /// A batch is with another replica, which says so to its router.
  void move_on(const member& gateway, const wire_message& what, uint64_t id,
               timestamp when) {
    auto& at = at_[{what.head.to, id}];
    take_back(gateway.name, at);
    at = what.head.from;
    give(gateway.name, at, when);
  }

  /// As many as a replica promises to have room for: "NODE/replica/MODEL.1.1".
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
  /// Batches, by gateway and replica.
  std::map<std::string, std::map<std::string, uint64_t>> given_;
  /// Where batches are that pass through parts, by router and number.
  std::map<std::pair<std::string, uint64_t>, std::string> at_;
};

/// A request is run by the model it asked.
class right_model : public invariant {
public:
  right_model(const ledger& l, const expectations& x)
    : invariant("I15"),
      ledger_(l),
      what_(x.what->spec) {}

  void on_given(const given_batch& x, timestamp when) override {
    for (auto id : x.requests) {
      auto* r = ledger_.find(id);
      if (r != nullptr && !is_asked(r->sent, x.model, what_))
        broken(when, named(id) + " asked " + asked_by(r->sent)
                       + " and is run by " + x.model);
    }
  }

private:
  const ledger& ledger_;
  const scenario& what_;
};

} // namespace

void add_request_invariants(const ledger& l, const expectations& x,
                            invariant_list& out) {
  out.push_back(std::make_unique<one_answer>(l));
  out.push_back(std::make_unique<right_answer>(l, x));
  out.push_back(std::make_unique<asked_for>(l));
  out.push_back(std::make_unique<in_time>(l, x));
  out.push_back(std::make_unique<few_executions>(l));
  out.push_back(std::make_unique<not_again>(l));
  out.push_back(std::make_unique<refused_is_refused>(l));
  out.push_back(std::make_unique<bounded>(l, x));
  out.push_back(std::make_unique<right_model>(l, x));
}

} // namespace millrace::simulator
