// SPDX-License-Identifier: Apache-2.0
#include "simulator/invariants.hpp"

#include <map>
#include <set>

#include "actors/policies/registry.hpp"
#include "actors/policies/state/scopes.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "simulator/ledger.hpp"
#include "simulator/log_line.hpp"
#include "simulator/simulation.hpp"

namespace millrace::simulator {

namespace {

// -- epochs -------------------------------------------------------------------

/// I9: After a newer start of a node is received, messages from an older start
/// have no effect. I9 and I11 check the bus, here the simulated one. The real
/// bus is checked by the unit tests of its peers and by tests with processes.
class newest_start : public invariant {
public:
  newest_start() : invariant("I9") {}

  void on_delivered(const member& from, const member& to, const header& what,
                    timestamp when) override {
    auto& newest = newest_[{to.name, to.incarnation, from.name}];
    if (from.incarnation < newest)
      broken(when, to.name + " receives " + what.t + " of start "
                     + std::to_string(from.incarnation) + " of " + from.name
                     + " after start " + std::to_string(newest));
    newest = std::max(newest, from.incarnation);
  }

private:
  std::map<std::tuple<std::string, uint64_t, std::string>, uint64_t> newest_;
};

/// A node obeys one controller at a time and never goes back to an older one.
class newest_controller : public invariant {
public:
  newest_controller() : invariant("I10") {}

  void on_node(const std::string& node, std::string_view what,
               timestamp) override {
    if (what == "started")
      obeyed_.erase(node);
  }
  void on_log(log_level, std::string_view line, timestamp when) override {
    if (!line.starts_with("supervisor.obeys "))
      return;
    auto node = std::string{field_of(line, "node")};
    auto epoch = number_in<uint64_t>(field_of(line, "epoch")).value_or(0);
    auto& last = obeyed_[node];
    if (epoch <= last)
      broken(when, node + " obeys controller " + std::to_string(epoch)
                     + " after " + std::to_string(last));
    last = epoch;
  }

private:
  std::map<std::string, uint64_t> obeyed_;
};

/// I11: A node receives nothing from a peer that it gave up, until both have a
/// new link.
class fenced : public invariant {
public:
  fenced() : invariant("I11") {}

  void on_link(const member& who, const member& whom, bool up) override {
    auto key = std::tuple{who.name, who.incarnation, whom.name};
    if (up)
      linked_[key] = whom.incarnation;
    else if (auto i = linked_.find(key);
             i != linked_.end() && i->second == whom.incarnation)
      linked_.erase(i);
  }
  void on_delivered(const member& from, const member& to, const header& what,
                    timestamp when) override {
    auto i = linked_.find({to.name, to.incarnation, from.name});
    if (i == linked_.end() || i->second != from.incarnation)
      broken(when, to.name + " receives " + what.t + " of " + from.name
                     + ", which it had given up");
  }

private:
  std::map<std::tuple<std::string, uint64_t, std::string>, uint64_t> linked_;
};

// -- resources ----------------------------------------------------------------

/// I12: The memory that loaded and loading replicas use fits on the device, and
/// no replica without an owner stays loaded.
class device_memory : public invariant {
public:
  explicit device_memory(const expectations& x)
    : invariant("I12"),
      what_(*x.what) {}

  void on_load_begun(const device_name& where, const load_request& request,
                     timestamp when) override {
    auto& held = held_[{where.node, where.device}];
    auto& mine = held[request.instance] = {0, request.extends_replica};
    for (auto i = request.first_layer; i < request.last_layer; ++i)
      mine.bytes += request.content->info.layers[i].parameter_bytes;
    uint64_t sum = 0;
    for (auto& [instance, copy] : held) {
      sum += copy.bytes;
      if (auto part = held.find(copy.extends_replica); part != held.end())
        sum -= part->second.bytes;
    }
    for (auto& d : what_.cluster.nodes.at(where.node).devices)
      if (d.id == where.device && d.memory.value > 0 && sum > d.memory.value)
        broken(when, to_string(where) + " holds " + format_bytes(sum) + " of "
                       + format_bytes(d.memory.value));
  }
  void on_unloaded(const device_name& where, instance_id instance,
                   timestamp) override {
    held_[{where.node, where.device}].erase(instance);
  }

  /// At the end of a run, replicas without an owner must be unloaded.
  void at_end(simulation& run) override {
    for (auto& [name, node] : run.inside().nodes()) {
      auto status = run.ask<node_status>(name, "supervisor", get_status{});
      size_t owned = 0, held = 0;
      if (status)
        for (auto& r : status->replicas)
          owned += r.state != replica_condition::failed;
      for (auto& [place, copies] : held_)
        held += place.first == name ? copies.size() : 0;
      if (status && held > owned)
        broken(run.inside().world().now(),
               name + "'s devices hold " + std::to_string(held) + " copies, of "
                 + std::to_string(owned) + " replicas");
    }
  }

  void on_node(const std::string& node, std::string_view what,
               timestamp) override {
    if (what != "paused" && what != "resumed")
      std::erase_if(held_, [&](auto& x) { return x.first.first == node; });
  }

private:
  struct copy {
    uint64_t bytes = 0;
    instance_id extends_replica = 0; ///< the instance of which this one shares
                                     ///< the bytes
  };

  const loaded_scenario& what_;
  std::map<std::pair<std::string, std::string>, std::map<instance_id, copy>>
    held_;
};

/// I14: At the end of a run each actor on a node is listed by the node's
/// supervisor.
class owned : public invariant {
public:
  owned() : invariant("I14") {}

  void at_end(simulation& run) override {
    for (auto& [name, node] : run.inside().nodes()) {
      if (run.inside().is_machine(name) && !node->running())
        continue; // released, or not requested
      auto status = run.ask<node_status>(name, "supervisor", get_status{});
      if (!status) {
        broken(run.inside().world().now(),
               name + " does not answer with its status");
        continue;
      }
      size_t listed = 0;
      for (auto& a : status->actors)
        listed += !a.state.starts_with("down") && a.state != "ended";
      auto there = node->process()->actors();
      if (there != listed)
        broken(run.inside().world().now(),
               name + " runs " + std::to_string(there)
                 + " actors, its supervisor lists " + std::to_string(listed));
    }
  }
};

// -- durable facts ------------------------------------------------------------

/// I22: A node that starts finds on its disk the row that the store last
/// acknowledged, or a row that was written and not acknowledged.
class durable : public invariant {
public:
  durable() : invariant("I22") {}

  void on_store(const stored_fact& stored, store_event what) override {
    auto& f = facts_[stored.node][{stored.table, stored.row.key}];
    if (what == store_event::asked) {
      f.open.push_back(stored.row);
      return;
    }
    // The first row that matches: rows are written in order.
    auto i = std::find_if(f.open.begin(), f.open.end(),
                          [&](auto& row) { return same(row, stored.row); });
    if (what == store_event::told) {
      f.told = stored.row;
      f.open.erase(f.open.begin(), i == f.open.end() ? i : std::next(i));
    } else if (what == store_event::refused && i != f.open.end()) {
      f.open.erase(i);
    }
  }

  void on_recovered(const std::string& node, const fact_tables& tables,
                    timestamp when) override {
    auto& known = facts_[node];
    for (auto& [name, table] : tables)
      for (auto& [key, row] : table)
        known[{name, key}]; // no entry exists yet: a write was never requested
    for (auto& [place, f] : known) {
      auto t = tables.find(place.first);
      auto there = t != tables.end() && t->second.contains(place.second);
      auto found =
        there ? t->second.at(place.second) : stored_row{place.second, {}, 0};
      if (!fits(place.first, f, found))
        broken(when, node + " finds " + place.first + "/" + place.second
                       + " at version " + std::to_string(found.version)
                       + " and the store acknowledged "
                       + std::to_string(f.told ? f.told->version : 0));
      f = {found, {}};
    }
  }

  void on_node(const std::string& node, std::string_view what,
               timestamp) override {
    if (what == "wiped")
      facts_.erase(node);
  }

private:
  struct fact {
    std::optional<stored_row> told;
    std::vector<stored_row> open; ///< written, not acknowledged yet
  };

  static bool same(const stored_row& x, const stored_row& y) {
    return x.value == y.value && (x.value.empty() || x.version == y.version);
  }

  /// A node writes its start counter before the watcher sees its writes.
  static bool fits(const std::string& table, const fact& x,
                   const stored_row& found) {
    if (table == "starts")
      return !x.told || found.version >= x.told->version;
    return same(found, x.told.value_or(stored_row{}))
           || std::any_of(x.open.begin(), x.open.end(),
                          [&](auto& row) { return same(row, found); });
  }

  std::map<std::string, std::map<std::pair<std::string, std::string>, fact>>
    facts_;
};

// -- liveness -----------------------------------------------------------------

/// I21: After all faults, each model has the wanted number of replicas, and no
/// replica starts or ends. Except for models scaled by load: their number is
/// between `min` and `max`.
class as_wanted : public invariant {
public:
  explicit as_wanted(const expectations& x)
    : invariant("I21"),
      expect_(x),
      what_(*x.what) {}

  void on_load_begun(const device_name& where, const load_request& request,
                     timestamp when) override {
    loaded_[{where.node, where.device, request.instance}] =
      request.content->info.name;
    if (when >= expect_.settled_at && !follows_load(request.content->info.name))
      broken(when, to_string(where) + " loads " + request.content->info.name
                     + " " + format_duration(when - expect_.healed_at)
                     + " after all faults were over");
  }
  void on_unloaded(const device_name& where, instance_id instance,
                   timestamp when) override {
    auto model = loaded_[{where.node, where.device, instance}];
    if (when >= expect_.settled_at && !follows_load(model))
      broken(when, to_string(where) + " unloads a model "
                     + format_duration(when - expect_.healed_at)
                     + " after all faults were over");
  }

  void at_end(simulation& run) override {
    auto now = run.inside().world().now();
    for (auto& [name, config] : what_.cluster.nodes) {
      auto& roles = config.roles;
      if (std::count(roles.begin(), roles.end(), node_role::controller) == 0)
        continue;
      auto list = run.ask<model_list>(name, "registry", get_models{});
      if (!list) {
        broken(now, name + " does not list its models");
        continue;
      }
      for (auto& wanted : what_.spec.models)
        check(name, wanted, *list, now);
    }
  }

private:
  /// Whether a policy sets the model's number of replicas.
  bool follows_load(const std::string& model) const {
    return std::any_of(
      what_.spec.models.begin(), what_.spec.models.end(), [&](auto& x) {
        auto policy =
          settings_of_scope(scope_of(x), what_.spec.scopes, x).policy;
        return x.model == model && !is_fixed_policy(policy);
      });
  }

  void check(const std::string& controller, const model_settings& wanted,
             const model_list& list, timestamp now) {
    for (auto& m : list.models) {
      if (m.settings.model != wanted.model)
        continue;
      if (follows_load(wanted.model)) {
        auto& limits = wanted.scaling;
        if (m.wanted < limits.min || m.wanted > limits.max
            || m.ready < limits.min)
          broken(now, wanted.model + " has " + std::to_string(m.ready)
                        + " replicas ready and " + std::to_string(m.wanted)
                        + " are wanted, between " + std::to_string(limits.min)
                        + " and " + std::to_string(limits.max) + " " + m.note);
        return;
      }
      // Stages that load the other layers become more replicas than they were.
      auto right = wanted.complete ? m.ready >= wanted.replicas
                                   : m.ready == wanted.replicas;
      if (!right || m.starting != 0)
        broken(now, wanted.model + " has " + std::to_string(m.ready)
                      + " replicas ready and " + std::to_string(m.starting)
                      + " starting, wanted are "
                      + std::to_string(wanted.replicas) + " " + m.note);
      return;
    }
    broken(now, controller + " does not list " + wanted.model);
  }

  expectations expect_;
  const loaded_scenario& what_;
  /// The model of each instance on a device.
  std::map<std::tuple<std::string, std::string, instance_id>, std::string>
    loaded_;
};

/// I25: After all faults every request is answered ok or cancelled.
class alive_again : public invariant {
public:
  alive_again(const ledger& l, const expectations& x)
    : invariant("I25"),
      ledger_(l),
      expect_(x) {}

  void at_end(simulation&) override {
    for (auto& [id, r] : ledger_.requests())
      if (r.sent.when >= expect_.settled_at && !fine(r))
        broken(r.sent.when,
               "request " + std::to_string(id) + ", sent "
                 + format_duration(r.sent.when - expect_.healed_at)
                 + " after all faults were over, "
                 + (r.answers == 0
                      ? "gets no answer"
                      : "is answered " + std::string{to_string(r.status)} + " "
                          + r.text));
  }

private:
  static bool fine(const ledger::entry& x) {
    return x.answers > 0 && (x.status == ec::ok || x.status == ec::cancelled);
  }

  const ledger& ledger_;
  expectations expect_;
};

/// I26: Every node sees every other node.
class all_linked : public invariant {
public:
  all_linked() : invariant("I26") {}

  void at_end(simulation& run) override {
    auto& nodes = run.inside().nodes();
    for (auto& [name, node] : nodes) {
      if (is_away(run, name))
        continue;
      if (!node->running()) {
        broken(run.inside().world().now(), name + " is not running");
        continue;
      }
      std::set<std::string> seen{name};
      for (auto& m : node->bus()->members().peers)
        seen.insert(m.name);
      for (auto& [other, y] : nodes)
        if (!seen.contains(other) && !is_away(run, other))
          broken(run.inside().world().now(), name + " does not see " + other);
    }
  }

private:
  /// Whether the node is a machine that is released, or boots.
  static bool is_away(simulation& x, const std::string& node) {
    return x.inside().is_machine(node) && !x.inside().at(node).running();
  }
};

/// I28: The number of messages is bounded: no livelock.
class few_messages : public invariant {
public:
  few_messages(const ledger& l, const expectations& x)
    : invariant("I28"),
      ledger_(l),
      what_(*x.what) {}

  void on_stuck(uint64_t messages, timestamp when) override {
    broken(when,
           "livelock: " + std::to_string(messages) + " messages at one moment");
  }

  void at_end(simulation& run) override {
    // Limits at three times the messages of a quiet run: per request, and per
    // node and second. Messages of an intruder count, too.
    constexpr uint64_t base = 10'000, per_request = 30, per_second = 3;
    auto seconds =
      to_us(run.inside().world().now() - virtual_world::beginning) / 1s;
    auto most = base + per_request * ledger_.requests().size()
                + per_second * what_.cluster.nodes.size()
                    * static_cast<uint64_t>(seconds);
    auto found = run.inside().world().messages();
    if (found > most)
      broken(run.inside().world().now(),
             std::to_string(found) + " messages for "
               + std::to_string(ledger_.requests().size()) + " requests");
  }

private:
  const ledger& ledger_;
  const loaded_scenario& what_;
};

/// I29: A request that its sender's role forbids has no effect.
class not_heard : public invariant {
public:
  not_heard() : invariant("I29") {}

  void on_log(log_level, std::string_view line, timestamp when) override {
    auto obeyed = line.starts_with("supervisor.obeys ")
                  && number_in<uint64_t>(field_of(line, "epoch"))
                       == simulation::intruder_epoch;
    if (obeyed || line.find("intruder") != std::string_view::npos)
      broken(when, "an operator's order is obeyed: " + std::string{line});
  }
};

} // namespace

void add_cluster_invariants(const ledger& l, const expectations& expected,
                            invariant_list& out) {
  out.push_back(std::make_unique<newest_start>());
  out.push_back(std::make_unique<newest_controller>());
  out.push_back(std::make_unique<fenced>());
  out.push_back(std::make_unique<device_memory>(expected));
  out.push_back(std::make_unique<owned>());
  out.push_back(std::make_unique<durable>());
  out.push_back(std::make_unique<as_wanted>(expected));
  out.push_back(std::make_unique<alive_again>(l, expected));
  out.push_back(std::make_unique<all_linked>());
  out.push_back(std::make_unique<few_messages>(l, expected));
  out.push_back(std::make_unique<not_heard>());
}

} // namespace millrace::simulator
