// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <caf/scoped_actor.hpp>

#include "simulator/cluster.hpp"
#include "tests/support/builders.hpp"

namespace millrace::test {

/// Settings for n replicas of model "m". Other model names: "grows" has one
/// more layer in version 2. "travels" has twelve chunks ("travels-far": eighty)
/// and is only on the disk of w1. "deep" has 16 layers.
inline model_settings want(uint64_t replicas) {
  model_settings out;
  out.model = "m";
  out.replicas = replicas;
  return out;
}

/// The same with batches of one request, in version `version`.
inline model_settings one_by_one(uint64_t replicas, std::string version = "") {
  auto out = want(replicas);
  out.policy.batch = 1;
  out.version = std::move(version);
  return out;
}

/// Number of answers by status.
using counts = std::map<ec, size_t>;

/// A device that runs a batch of one request in 10 ms.
const emulation ten_ms{50ms, 9ms, 1ms};

/// A simulated cluster under control of the test: a node with gateway and
/// controller, and workers with one emulated device each. The network has no
/// delay by default.
class virtual_cluster : private simulator::watcher {
public:
  explicit virtual_cluster(size_t workers, model_settings wanted,
                           emulation how = {}, gateway_config limits = {},
                           link_speed between_hosts = {{0}, 0us},
                           size_t gateways = 1)
    : wanted_(wanted),
      what_(describe(workers, wanted, how, limits, between_hosts)) {
    for (size_t i = 2; i <= gateways; ++i)
      what_.cluster.nodes["front" + std::to_string(i)].roles = {
        node_role::gateway};
    cluster_.reset(new simulator::cluster{what_, 1, *this});
    for (auto& [name, x] : cluster_->nodes())
      if (name != spare)
        x->start();
    advance(4200ms); // includes 2 s for the spare, which does not start
  }

  // -- time -------------------------------------------------------------------

  timestamp now() const { return cluster_->world().now(); }

  void advance(microseconds length) { cluster_->world().run_for(length); }

  /// Runs all events that are due now.
  void drain() { advance(0us); }

  // -- clients ----------------------------------------------------------------

  infer ask() const { return ask(1); }

  infer ask(int64_t rows) const {
    infer out;
    out.model = wanted_.model;
    if (is_cut(wanted_))
      out.inputs.push_back({"", *tensor::zeros(dtype::u8, {rows, 16})});
    out.inputs.push_back({"", *tensor::zeros(dtype::u8, {rows, 16})});
    return out;
  }

  void request(uint64_t id, infer x, microseconds deadline = 10s,
               const std::string& connection = "client") {
    front().bus()->client_sends({0, connection}, id, std::move(x), deadline);
  }
  void request(uint64_t id) { request(id, ask()); }

  /// Sends a request with a priority in its header.
  void request(uint64_t id, int32_t priority) {
    front().bus()->client_sends({0, "client"}, id, ask(), 10s, priority);
  }

  void cancel(uint64_t id) { front().bus()->client_cancels({0, "client"}, id); }

  /// Counts answers by status. Checks that each request has exactly one answer.
  std::map<ec, size_t> answers() {
    std::map<ec, size_t> out;
    for (auto& [id, xs] : replies) {
      CHECK(xs.size() == 1);
      ++out[xs.front().status];
    }
    return out;
  }

  std::map<uint64_t, std::vector<infer_reply>> replies;
  std::string given_to;  ///< node that received the last batch
  size_t given = 0;      ///< number of requests given to devices
  size_t executions = 0; ///< number of requests that devices ran
  /// Number of requests that ran on each node; each part of a model counts.
  std::map<std::string, size_t> executed_on;
  /// A batch that ran at one stage.
  struct stage_run {
    uint64_t first_layer;
    std::vector<uint64_t> requests;
    timestamp started, ended;
  };
  std::vector<stage_run> runs;

  // -- nodes ------------------------------------------------------------------

  simulator::node& front() { return cluster_->at("front"); }
  simulator::node& node(const std::string& name) { return cluster_->at(name); }
  simulator::cluster& inside() { return *cluster_; }

  void kill(const std::string& name) { node(name).kill(); }

  /// Starts the spare worker.
  void start_spare() { node(spare).start(); }

  // -- actors -----------------------------------------------------------------

  /// Finds an actor by address: "./gateway" on the front node, "w1/monitor" on
  /// another node by a proxy.
  caf::strong_actor_ptr actor(const std::string& address) {
    return front().bus()->resolve(address);
  }

  template <class T>
  void tell(const std::string& address, const T& x) {
    at_front([this, address, x] {
      caf::anon_send(caf::actor_cast<caf::actor>(actor(address)), x);
    });
  }

  void crash(const std::string& address) {
    at_front([this, address] {
      caf::anon_send_exit(actor(address), caf::exit_reason::kill);
    });
  }

  /// Sends a question to an actor, advances the time by `takes`, and returns
  /// the answer or error.
  template <class Answer, class Actor, class Question>
  result<Answer> ask_actor(const std::string& address, const Question& x,
                           microseconds takes = 0us) {
    return std::move(
      ask_at_once<Answer, Actor>(address, std::vector{x}, takes).front());
  }

  /// The same for several questions in direct succession.
  template <class Answer, class Actor, class Question>
  std::vector<result<Answer>> ask_at_once(const std::string& address,
                                          const std::vector<Question>& xs,
                                          microseconds takes) {
    std::vector<result<Answer>> out;
    caf::scoped_actor self{front().process()->system(), true};
    auto to = caf::actor_cast<Actor>(actor(address));
    std::vector<decltype(self->request(to, caf::infinite, xs.front()))> asked;
    for (auto& x : xs)
      asked.push_back(self->request(to, caf::infinite, x));
    at_front([] {});
    advance(takes);
    for (auto& answer : asked)
      answer.receive(
        [&](Answer& y) { out.emplace_back(std::move(y)); },
        [&](const caf::error& e) { out.emplace_back(from_caf(e)); });
    return out;
  }

  /// The load report of the monitor of a node.
  node_load load_of(const std::string& node) {
    return *ask_actor<node_load, monitor_actor>(node + "/monitor", get_load{});
  }

private:
  static constexpr auto spare = "w-spare";

  void at_front(std::function<void()> what) {
    cluster_->world().soon(*front().process(), std::move(what));
    drain();
    advance(2ms); // time for the write
  }

  /// Returns true for a model in parts, which has twelve layers and a tag per
  /// request.
  static bool is_cut(const model_settings& x) {
    return x.parts > 1 || !x.cuts.empty() || x.model == "deep";
  }

  static loaded_scenario describe(size_t workers, const model_settings& wanted,
                                  const emulation& how,
                                  const gateway_config& limits,
                                  const link_speed& between_hosts) {
    loaded_scenario out;
    auto& config = out.cluster;
    config.models = {wanted};
    config.gateway = limits;
    config.nodes["front"].roles = {node_role::gateway, node_role::controller};
    auto add_worker = [&](const std::string& name) {
      auto& node = config.nodes[name];
      node.roles = {node_role::worker};
      auto& d = node.devices.emplace_back();
      d.type = device_type::emulated;
      d.id = "emu0";
      d.kind = "emulated";
      d.emulate = how;
    };
    for (size_t i = 1; i <= workers; ++i)
      add_worker("w" + std::to_string(i));
    add_worker(spare);
    simulated_model small;
    small.input = {16};
    small.output = {2};
    small.versions = 2;
    small.application = "a";
    if (is_cut(wanted))
      small.layers = 12;
    if (wanted.model == "deep")
      small.layers = 16;
    small.alike = wanted.model != "grows";
    if (wanted.model == "far") {
      small.at = bundle_place::store;
      config.object_stores["store"].url = "simulated:";
      out.spec.network.store = {{1 << 20}, 0us};
    }
    if (wanted.model.starts_with("travels")) {
      auto chunks = wanted.model == "travels-far" ? 80u : 12u;
      small.bytes.value = (chunks << 20) - 4096; // plus the table of offsets
      small.on = {"w1"};
      small.versions = 1;
      out.spec.chunk = {chunk_bytes};
      if (wanted.model == "travels-shared")
        config.nodes["w3"].host = config.nodes["w5"].host = "shared";
    }
    out.spec.bundles = {{wanted.model, small}};
    small.on.clear();
    small.versions = 2;
    out.spec.bundles.emplace("other", small);
    small.broken = true;
    out.spec.bundles["broken"] = small;
    out.spec.network.host = between_hosts;
    out.spec.network.rack = out.spec.network.clients = {{0}, 0us};
    out.spec.network.local = 0us;
    return out;
  }

  void on_reply(const session&, uint64_t id, const infer_reply& x,
                timestamp) override {
    replies[id].push_back(x);
  }
  void on_given(const simulator::given_batch& x, timestamp) override {
    given_to = x.where.node;
    given += x.begins ? x.requests.size() : 0;
  }
  void on_executed(const simulator::executed_batch& x) override {
    if (!x.ok)
      return;
    executions += x.begins ? x.requests.size() : 0;
    executed_on[x.where.node] += x.requests.size();
    runs.push_back({x.first_layer, x.requests, x.started, x.ended});
  }

  model_settings wanted_;
  loaded_scenario what_;
  std::unique_ptr<simulator::cluster> cluster_;
};

} // namespace millrace::test
