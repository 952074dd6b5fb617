// SPDX-License-Identifier: Apache-2.0
#include "simulator/explore.hpp"

#include <algorithm>
#include <set>

#include "simulator/event_hash.hpp"
#include "simulator/ledger.hpp"
#include "simulator/model.hpp"
#include "simulator/simulation.hpp"

namespace millrace::simulator {

namespace {

/// Counts the events of a run.
class census : public watcher {
public:
  explicit census(seed_result& out) : out_(out) {}

  void on_sent(const sent_request&) override {
    ++out_.requests;
    ++open_;
  }
  void on_reply(const session&, uint64_t, const infer_reply& reply,
                timestamp) override {
    ++out_.statuses[std::string{to_string(reply.status)}];
    --open_;
  }
  void on_cut_short(uint64_t, timestamp) override {
    ++out_.statuses["(connection lost)"];
    --open_;
  }
  void on_log(log_level, std::string_view line, timestamp) override {
    auto name = std::string{line.substr(0, line.find(' '))};
    ++out_.probes[name];
    if (name.starts_with("fault.") && name != "fault.over")
      out_.hits += open_ > 0;
  }

private:
  seed_result& out_;
  int64_t open_ = 0;
};

/// Bytes of the largest request in the workload.
uint64_t largest_request(const loaded_scenario& what) {
  uint64_t out = 0;
  for (auto& part : what.spec.workload)
    for (auto& [name, m] : what.spec.bundles)
      out = std::max(out, part.rows * (m.input.value + tag_bytes));
  return out;
}

/// Draws limits and delays that the scenario leaves open, so that rare
/// interleavings become likely ("buggification"). See options_of.
loaded_scenario varied(const loaded_scenario& what, random_stream random) {
  auto out = what;
  auto& c = out.cluster;
  auto varies = [&](variation x) {
    auto& list = what.spec.explore.vary;
    return std::count(list.begin(), list.end(), x) != 0;
  };
  auto up_to = [&](int64_t most_us) {
    auto x = random.uniform();
    return microseconds{
      static_cast<int64_t>(static_cast<double>(most_us) * x * x * x)};
  };
  if (varies(variation::link)) {
    c.link.beat = 10ms + up_to(190'000);
    c.link.timeout = c.link.beat * static_cast<int64_t>(2 + random.below(9));
  }
  if (varies(variation::network)) {
    out.spec.network.jitter = up_to(5000);
    out.spec.network.per_message = up_to(100);
    out.spec.network.host.latency = 1us + up_to(2000);
    if (random.below(2) == 0)
      out.spec.network.contend_from = {0};
  }
  // Limits that a storm reaches, but quiet operation does not.
  auto few = [&] { return 12 + random.below(64); };
  if (varies(variation::limits)) {
    if (random.below(2) == 0)
      c.gateway.max_requests = few();
    if (random.below(2) == 0)
      c.gateway.max_bytes = c.gateway.max_client_bytes = {
        std::max<uint64_t>(64u << 10, 64 * largest_request(what))};
    for (auto& m : c.models)
      if (random.below(2) == 0)
        m.policy.queue = few();
  }
  if (varies(variation::policies))
    for (auto& m : c.models) {
      m.policy.batch = 1 + random.below(8);
      m.policy.batch_delay = up_to(5000);
      m.policy.drop =
        random.below(4) == 0 ? drop_policy::never : drop_policy::late;
      if (random.below(2) == 0)
        m.policy.dispatch = dispatch_policy::round_robin;
      m.concurrency = random.below(3);
    }
  if (varies(variation::lanes))
    for (auto& [name, node] : c.nodes)
      for (auto& d : node.devices)
        d.lanes = static_cast<uint32_t>(1 + random.below(2));
  if (varies(variation::disks))
    out.spec.sync = up_to(200'000);
  if (varies(variation::parts))
    for (auto& m : c.models) {
      constexpr uint64_t most = 3;
      auto bundle = what.spec.bundles.find(m.model);
      if (bundle == what.spec.bundles.end() || bundle->second.layers == 1)
        continue;
      m.parts = 1 + random.below(std::min(most, bundle->second.layers));
      m.policy.overlap = random.below(3);
      m.policy.held = random.below(3);
      m.complete = random.below(2) == 0;
    }
  if (varies(variation::sharing))
    for (auto& [name, node] : c.nodes)
      for (auto& device : node.devices) {
        auto& sharing = device.sharing;
        constexpr auto modes = names_of(sharing_mode{}).size();
        sharing.mode = static_cast<sharing_mode>(random.below(modes));
        sharing.at_once = static_cast<uint32_t>(random.below(device.lanes + 1));
        sharing.per_replica = static_cast<uint32_t>(random.below(3));
      }
  out.spec.models = c.models;
  return out;
}

microseconds part_of(const loaded_scenario& what, double x) {
  return microseconds{
    static_cast<int64_t>(x * static_cast<double>(what.spec.length.count()))};
}

} // namespace

std::vector<std::string> options_of(variation varied) {
  switch (varied) {
  case variation::link:
    return {"link.beat", "link.timeout"};
  case variation::network:
    return {"network.jitter", "network.per_message", "network.host.latency",
            "network.contend_from"};
  case variation::limits:
    return {"gateway.max_requests", "gateway.max_bytes",
            "gateway.max_client_bytes", "models[].policy.queue"};
  case variation::policies:
    return {"models[].policy.batch", "models[].policy.batch_delay",
            "models[].policy.drop", "models[].policy.dispatch",
            "models[].concurrency"};
  case variation::lanes:
    return {"hosts[].devices[].lanes"};
  case variation::disks:
    return {"sync"};
  case variation::parts:
    return {"models[].parts", "models[].policy.overlap", "models[].policy.held",
            "models[].complete"};
  case variation::sharing:
    return {"hosts[].devices[].sharing.mode",
            "hosts[].devices[].sharing.at_once",
            "hosts[].devices[].sharing.per_replica"};
  }
  return {};
}

std::vector<fault> faults_of(const loaded_scenario& what, uint64_t seed,
                             const exploration& how) {
  storm weather;
  weather.length = part_of(what, what.spec.explore.storm);
  weather.most = what.spec.explore.faults;
  auto out = draw_storm(what, weather, random_stream{seed}.fork("storm"));
  if (how.faults && *how.faults < out.size())
    out.resize(*how.faults);
  return out;
}

result<seed_result> explore_seed(const loaded_scenario& what, uint64_t seed,
                                 const exploration& how, watcher* also) {
  seed_result out;
  out.seed = seed;
  random_stream random{seed};
  auto mine = varied(what, random.fork("variation"));
  auto storm_length = part_of(mine, mine.spec.explore.storm);
  out.faults = faults_of(mine, seed, how);
  simulation::options options;
  options.seed = seed;
  options.faults = out.faults;
  options.heal_at = storm_length;
  options.shuffle = true;
  options.cancelled = random.fork("cancelled").uniform() * 0.1;
  options.intruder = true;
  options.registers = true;
  options.bug = how.bug;
  options.most_at_once = 100'000;
  auto run = simulation::prepare(mine, options);
  if (!run)
    return run.failure();
  auto begin = (*run)->begin();
  expectations expect{&mine, begin, begin + storm_length,
                      begin + part_of(mine, mine.spec.explore.settled),
                      begin + mine.spec.length};
  ledger book;
  event_hash hash;
  census counts{out};
  invariant_list invariants;
  add_request_invariants(book, expect, invariants);
  add_cluster_invariants(book, expect, invariants);
  add_transfer_invariants(expect, invariants);
  add_device_invariants(expect, invariants);
  add_machine_invariants(expect, invariants);
  invariants.push_back(make_conservation(mine));
  (*run)->add(book);
  (*run)->add(hash);
  (*run)->add(counts);
  for (auto& x : invariants)
    (*run)->add(*x);
  if (also != nullptr)
    (*run)->add(*also);
  auto broken = [&] {
    return std::any_of(invariants.begin(), invariants.end(),
                       [](auto& x) { return !x->found().empty(); });
  };
  (*run)->run({}, broken);
  if (!broken())
    for (auto& x : invariants)
      x->at_end(**run);
  for (auto& x : invariants)
    out.violations.insert(out.violations.end(), x->found().begin(),
                          x->found().end());
  out.hash = hash.value();
  out.events = hash.events();
  out.messages = (*run)->inside().world().messages();
  out.actions = (*run)->inside().world().actions();
  (*run)->finish();
  return out;
}

size_t shortest_prefix(const loaded_scenario& what, const seed_result& found,
                       exploration how) {
  std::set<std::string> names;
  for (auto& v : found.violations)
    names.insert(v.invariant);
  auto still = [&](size_t faults) {
    how.faults = faults;
    auto x = explore_seed(what, found.seed, how);
    return x
           && std::any_of(x->violations.begin(), x->violations.end(),
                          [&](auto& v) { return names.contains(v.invariant); });
  };
  // No bisection: a later fault may hide the effect of an earlier one.
  for (size_t n = 0; n < found.faults.size(); ++n)
    if (still(n))
      return n;
  return found.faults.size();
}

} // namespace millrace::simulator
