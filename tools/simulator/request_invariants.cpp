// SPDX-License-Identifier: Apache-2.0
#include "simulator/invariants.hpp"

#include <cstring>
#include <map>

#include "runtime/units.hpp"
#include "simulator/ledger.hpp"
#include "simulator/model.hpp"
#include "simulator/simulation.hpp"

namespace millrace::simulator {

namespace {

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
};

/// An answer goes to who asked, and is the answer to what was asked.
class right_answer : public invariant {
public:
  explicit right_answer(const ledger& l) : invariant("I2"), ledger_(l) {}

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
    if (!r->sent.model.empty() && x.model != r->sent.model)
      broken(when, named(id) + " asked " + r->sent.model
                     + " and is answered by " + x.model);
  }

private:
  const ledger& ledger_;
};

/// Nobody is answered who did not ask, or cannot hear.
class asked_for : public invariant {
public:
  explicit asked_for(const ledger& l) : invariant("I3"), ledger_(l) {}

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

  void on_reply(const session&, uint64_t id, const infer_reply& x,
                timestamp when) override {
    auto* r = ledger_.find(id);
    if (r == nullptr)
      return;
    auto allowed = deadline_of(*r);
    // The gateway's own measure: what the network adds is not its doing.
    if (x.status == ec::ok && x.total > allowed)
      broken(when, named(id) + " is a success after " + format_duration(x.total)
                     + ", its deadline was " + format_duration(allowed));
    auto paused = paused_.find(r->sent.gateway);
    auto slept = paused != paused_.end() && paused->second >= r->sent.when;
    if (x.total > allowed + grace && !slept)
      broken(when, named(id) + " was settled after " + format_duration(x.total)
                     + ", its deadline was " + format_duration(allowed));
  }

  void on_node(const std::string& node, std::string_view what,
               timestamp when) override {
    if (what == "resumed")
      paused_[node] = when;
  }

private:
  microseconds deadline_of(const ledger::entry& r) const {
    if (r.sent.due != far_future)
      return to_us(r.sent.due - r.sent.when);
    auto out = serving_policy{}.deadline;
    for (auto& m : what_.spec.models)
      if (m.model == r.sent.model)
        out = m.policy.deadline;
    return out;
  }

  const ledger& ledger_;
  const loaded_scenario& what_;
  std::map<std::string, timestamp> paused_; ///< last until then
};

/// A request is executed twice at most.
class few_executions : public invariant {
public:
  explicit few_executions(const ledger& l) : invariant("I5"), ledger_(l) {}

  void on_given(const executed_batch& x, timestamp when) override {
    for (auto& item : x.items)
      if (auto* r = ledger_.find(request_of(item)); r != nullptr)
        if (r->given > 2)
          broken(when, named(request_of(item)) + " is executed for the "
                         + std::to_string(r->given) + "rd time");
  }

private:
  const ledger& ledger_;
};

/// What is settled (cancelled, too late) is not dispatched again.
class not_again : public invariant {
public:
  explicit not_again(const ledger& l) : invariant("I6"), ledger_(l) {}

  void on_given(const executed_batch& x, timestamp when) override {
    for (auto& item : x.items)
      if (auto* r = ledger_.find(request_of(item)); r != nullptr)
        if (r->given_after > 1)
          broken(when, named(request_of(item))
                         + " was settled and is dispatched again");
  }

private:
  const ledger& ledger_;
};

/// What is refused is not executed.
class refused_is_refused : public invariant {
public:
  explicit refused_is_refused(const ledger& l) : invariant("I8"), ledger_(l) {}

  void on_reply(const session&, uint64_t id, const infer_reply& x,
                timestamp when) override {
    auto* r = ledger_.find(id);
    if (r != nullptr && refused(x.status) && r->given > 0)
      broken(when, named(id) + " was executed and is answered "
                     + std::string{to_string(x.status)});
  }
  void on_given(const executed_batch& x, timestamp when) override {
    for (auto& item : x.items)
      if (auto* r = ledger_.find(request_of(item)); r != nullptr)
        if (r->answers > 0 && refused(r->status))
          broken(when, named(request_of(item)) + " was answered "
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

/// Nobody's requests pile up: a gateway holds what it may.
class bounded : public invariant {
public:
  bounded(const ledger& l, const expectations& x)
    : invariant("I13"),
      ledger_(l),
      most_(x.what->cluster.gateway.max_requests) {}

  void on_given(const executed_batch& x, timestamp when) override {
    if (x.items.size() > most_)
      broken(when, "a batch of " + std::to_string(x.items.size())
                     + " requests, more than a gateway may hold");
  }
  void on_sent(const sent_request& x) override {
    // What a gateway has had for longer than any message takes it has admitted.
    auto held = ledger_.open_at(x.gateway, x.when - 2s);
    if (held > most_)
      broken(x.when, x.gateway + " holds " + std::to_string(held)
                       + " requests of at most " + std::to_string(most_));
  }

private:
  const ledger& ledger_;
  uint64_t most_;
};

/// A request is run by the model it asked.
class right_model : public invariant {
public:
  explicit right_model(const ledger& l) : invariant("I15"), ledger_(l) {}

  void on_given(const executed_batch& x, timestamp when) override {
    for (auto& item : x.items) {
      auto* r = ledger_.find(request_of(item));
      if (r != nullptr && !r->sent.model.empty() && r->sent.model != x.model)
        broken(when, named(request_of(item)) + " asked " + r->sent.model
                       + " and is run by " + x.model);
    }
  }

private:
  const ledger& ledger_;
};

} // namespace

void add_request_invariants(const ledger& l, const expectations& x,
                            invariant_list& out) {
  out.push_back(std::make_unique<one_answer>(l));
  out.push_back(std::make_unique<right_answer>(l));
  out.push_back(std::make_unique<asked_for>(l));
  out.push_back(std::make_unique<in_time>(l, x));
  out.push_back(std::make_unique<few_executions>(l));
  out.push_back(std::make_unique<not_again>(l));
  out.push_back(std::make_unique<refused_is_refused>(l));
  out.push_back(std::make_unique<bounded>(l, x));
  out.push_back(std::make_unique<right_model>(l));
}

} // namespace millrace::simulator
