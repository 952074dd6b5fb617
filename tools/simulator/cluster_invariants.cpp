// SPDX-License-Identifier: Apache-2.0
#include "simulator/invariants.hpp"

#include <map>
#include <set>

#include "actors/policies/registry.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "simulator/ledger.hpp"
#include "simulator/log_line.hpp"
#include "simulator/simulation.hpp"

namespace millrace::simulator {

namespace {

// -- epochs -------------------------------------------------------------------

/// Nothing of an older start of a node is heard after a newer one. This and I11
/// hold the bus to account, here the simulated one; the real one is held by
/// tests of its peers and by those with processes.
class newest_start : public invariant {
public:
  newest_start() : invariant("I9") {}

  void on_delivered(const member& from, const member& to, const header& what,
                    timestamp when) override {
    auto& newest = newest_[{to.name, to.incarnation, from.name}];
    if (from.incarnation < newest)
      broken(when, to.name + " hears " + what.t + " of start "
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

/// Who is given up is not heard until there is a new link.
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
      broken(when, to.name + " hears " + what.t + " of " + from.name
                     + ", which it had given up");
  }

private:
  std::map<std::tuple<std::string, uint64_t, std::string>, uint64_t> linked_;
};

// -- resources ----------------------------------------------------------------

/// What a device has loaded or loads fits on it, and nothing stays that nobody
/// owns.
class device_memory : public invariant {
public:
  explicit device_memory(const expectations& x)
    : invariant("I12"),
      what_(*x.what) {}

  void on_load_begun(const device_name& where, const load_request& x,
                     timestamp when) override {
    auto& held = held_[{where.node, where.device}];
    auto& mine = held[x.instance] = {0, x.extends_replica};
    for (auto i = x.first_layer; i < x.last_layer; ++i)
      mine.bytes += x.content->info.layers[i].parameter_bytes;
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
  void on_unloaded(const device_name& where, instance_id x,
                   timestamp) override {
    held_[{where.node, where.device}].erase(x);
  }

  /// All that is not owned has been given back.
  void at_end(simulation& x) override {
    for (auto& [name, node] : x.inside().nodes()) {
      auto status = x.ask<node_status>(name, "supervisor", get_status{});
      size_t owned = 0, held = 0;
      if (status)
        for (auto& r : status->replicas)
          owned += r.state != replica_condition::failed;
      for (auto& [place, copies] : held_)
        held += place.first == name ? copies.size() : 0;
      if (status && held > owned)
        broken(x.inside().world().now(),
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
    instance_id extends_replica = 0; ///< whose bytes are its own, too
  };

  const loaded_scenario& what_;
  std::map<std::pair<std::string, std::string>, std::map<instance_id, copy>>
    held_;
};

/// No actor without an owner, in the end: a node runs what its supervisor
/// lists.
class owned : public invariant {
public:
  owned() : invariant("I14") {}

  void at_end(simulation& x) override {
    for (auto& [name, node] : x.inside().nodes()) {
      if (x.inside().is_machine(name) && !node->running())
        continue; // released, or not requested
      auto status = x.ask<node_status>(name, "supervisor", get_status{});
      if (!status) {
        broken(x.inside().world().now(), name + " does not say how it is");
        continue;
      }
      size_t listed = 0;
      for (auto& a : status->actors)
        listed += !a.state.starts_with("down") && a.state != "ended";
      auto there = node->process()->actors();
      if (there != listed)
        broken(x.inside().world().now(), name + " runs " + std::to_string(there)
                                           + " actors, its supervisor knows of "
                                           + std::to_string(listed));
    }
  }
};

// -- durable facts ------------------------------------------------------------

/// What a node finds on its disk is what it was told is there, or what it was
/// not told of and asked for.
class durable : public invariant {
public:
  durable() : invariant("I22") {}

  void on_store(const stored_fact& x, store_event what) override {
    auto& f = facts_[x.node][{x.table, x.row.key}];
    if (what == store_event::asked) {
      f.open.push_back(x.row);
      return;
    }
    // The first of its kind: they are written in order.
    auto i = std::find_if(f.open.begin(), f.open.end(),
                          [&](auto& row) { return same(row, x.row); });
    if (what == store_event::told) {
      f.told = x.row;
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
        known[{name, key}]; // there is no entry yet: never asked for
    for (auto& [place, f] : known) {
      auto t = tables.find(place.first);
      auto there = t != tables.end() && t->second.contains(place.second);
      auto found =
        there ? t->second.at(place.second) : stored_row{place.second, {}, 0};
      if (!fits(place.first, f, found))
        broken(when, node + " finds " + place.first + "/" + place.second
                       + " at version " + std::to_string(found.version)
                       + " and was told "
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
    std::vector<stored_row> open; ///< asked for, and not told how it went
  };

  static bool same(const stored_row& x, const stored_row& y) {
    return x.value == y.value && (x.value.empty() || x.version == y.version);
  }

  /// A node counts a start before there is anybody to ask or tell.
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

/// When all is well again there are as many replicas as are wanted, and none
/// comes or goes any more but of models whose number follows the load: of these
/// there are between `min` and `max`.
class as_wanted : public invariant {
public:
  explicit as_wanted(const expectations& x)
    : invariant("I21"),
      expect_(x),
      what_(*x.what) {}

  void on_load_begun(const device_name& where, const load_request& x,
                     timestamp when) override {
    loaded_[{where.node, where.device, x.instance}] = x.content->info.name;
    if (when >= expect_.settled_at && !follows_load(x.content->info.name))
      broken(when, to_string(where) + " loads " + x.content->info.name + " "
                     + format_duration(when - expect_.healed_at)
                     + " after all faults were over");
  }
  void on_unloaded(const device_name& where, instance_id x,
                   timestamp when) override {
    auto model = loaded_[{where.node, where.device, x}];
    if (when >= expect_.settled_at && !follows_load(model))
      broken(when, to_string(where) + " unloads a model "
                     + format_duration(when - expect_.healed_at)
                     + " after all faults were over");
  }

  void at_end(simulation& x) override {
    auto now = x.inside().world().now();
    for (auto& [name, config] : what_.cluster.nodes) {
      auto& roles = config.roles;
      if (std::count(roles.begin(), roles.end(), node_role::controller) == 0)
        continue;
      auto list = x.ask<model_list>(name, "registry", get_models{});
      if (!list) {
        broken(now, name + " does not list its models");
        continue;
      }
      for (auto& wanted : what_.spec.models)
        check(name, wanted, *list, now);
    }
  }

private:
  /// Whether a policy decides the number of a model's replicas.
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
      // Parts that are completed become more copies than they made up.
      auto right = wanted.complete ? m.ready >= wanted.replicas
                                   : m.ready == wanted.replicas;
      if (!right || m.starting != 0)
        broken(now, wanted.model + " has " + std::to_string(m.ready)
                      + " replicas ready and " + std::to_string(m.starting)
                      + " starting, wanted are "
                      + std::to_string(wanted.replicas) + " " + m.note);
      return;
    }
    broken(now, controller + " does not know of " + wanted.model);
  }

  expectations expect_;
  const loaded_scenario& what_;
  /// Models of the instances on devices.
  std::map<std::tuple<std::string, std::string, instance_id>, std::string>
    loaded_;
};

/// When all is well again every request is answered in time.
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
                      ? "finds nobody to answer it"
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

/// Every node sees every other.
class all_linked : public invariant {
public:
  all_linked() : invariant("I26") {}

  void at_end(simulation& x) override {
    auto& nodes = x.inside().nodes();
    for (auto& [name, node] : nodes) {
      if (is_away(x, name))
        continue;
      if (!node->running()) {
        broken(x.inside().world().now(), name + " does not run");
        continue;
      }
      std::set<std::string> seen{name};
      for (auto& m : node->bus()->members().peers)
        seen.insert(m.name);
      for (auto& [other, y] : nodes)
        if (!seen.contains(other) && !is_away(x, other))
          broken(x.inside().world().now(), name + " does not see " + other);
    }
  }

private:
  /// A machine that is released, or boots.
  static bool is_away(simulation& x, const std::string& node) {
    return x.inside().is_machine(node) && !x.inside().at(node).running();
  }
};

/// Work does not go round in circles.
class few_messages : public invariant {
public:
  few_messages(const ledger& l, const expectations& x)
    : invariant("I28"),
      ledger_(l),
      what_(*x.what) {}

  void on_stuck(uint64_t messages, timestamp when) override {
    broken(when, "time stands still: " + std::to_string(messages)
                   + " messages at one moment");
  }

  void at_end(simulation& x) override {
    // Thrice what a quiet run takes: for requests, and for every node from
    // second to second, what an intruder tells it among them.
    constexpr uint64_t base = 10'000, per_request = 30, per_second = 3;
    auto seconds =
      to_us(x.inside().world().now() - virtual_world::beginning) / 1s;
    auto most = base + per_request * ledger_.requests().size()
                + per_second * what_.cluster.nodes.size()
                    * static_cast<uint64_t>(seconds);
    auto found = x.inside().world().messages();
    if (found > most)
      broken(x.inside().world().now(),
             std::to_string(found) + " messages for "
               + std::to_string(ledger_.requests().size()) + " requests");
  }

private:
  const ledger& ledger_;
  const loaded_scenario& what_;
};

/// What somebody may not say has no effect.
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

void add_cluster_invariants(const ledger& l, const expectations& x,
                            invariant_list& out) {
  out.push_back(std::make_unique<newest_start>());
  out.push_back(std::make_unique<newest_controller>());
  out.push_back(std::make_unique<fenced>());
  out.push_back(std::make_unique<device_memory>(x));
  out.push_back(std::make_unique<owned>());
  out.push_back(std::make_unique<durable>());
  out.push_back(std::make_unique<as_wanted>(x));
  out.push_back(std::make_unique<alive_again>(l, x));
  out.push_back(std::make_unique<all_linked>());
  out.push_back(std::make_unique<few_messages>(l, x));
  out.push_back(std::make_unique<not_heard>());
}

} // namespace millrace::simulator
