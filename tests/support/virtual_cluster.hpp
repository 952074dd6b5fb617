// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/autoscaler/fixed.hpp"
#include "actors/cache/cache_state.hpp"
#include "actors/executor/executor_state.hpp"
#include "actors/gateway/gateway_state.hpp"
#include "actors/monitor/monitor_state.hpp"
#include "actors/node/supervisor_state.hpp"
#include "actors/placement/placement_state.hpp"
#include "actors/registry/registry_state.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/virtual_node.hpp"

namespace millrace::test {

/// A reader whose bundles are made, not read; "broken" is listed but cannot be
/// opened.
class made_bundles : public bundle_reader {
public:
  explicit made_bundles(std::vector<std::string> models)
    : models_(std::move(models)) {}

  void open(const std::string& model, uint64_t version, opened done) override {
    if (model == "broken")
      return done(error{ec::bad_config, "a byte of it is wrong", {}});
    if (std::count(models_.begin(), models_.end(), model) == 0)
      return done(error{ec::unknown_model, "no bundle of " + model, {}});
    done(fetched{make_bundle(model, version), info_of(model)});
  }
  void list(listed done) override {
    std::vector<model_info> out;
    for (auto& m : models_)
      out.push_back(info_of(m));
    out.push_back(info_of("broken"));
    done(std::move(out));
  }

private:
  static model_info info_of(const std::string& model) {
    model_info out;
    out.model = model;
    out.version = 1;
    out.aliases = {"default"};
    out.signature = row_signature();
    return out;
  }
  std::vector<std::string> models_;
};

/// Facts that live as long as the test.
class memory_store : public store {
public:
  void load(std::string table, loaded done) override {
    std::vector<stored_row> rows;
    for (auto& [key, row] : tables_[table])
      rows.push_back(row);
    done(std::move(rows));
  }
  void put(std::string table, std::string key, std::string value,
           uint64_t expected, written done) override {
    auto& rows = tables_[table];
    auto there = rows.contains(key) ? rows[key].version : 0;
    if (there != expected)
      return done(error{ec::conflict, "not at that version", {}});
    if (value.empty())
      rows.erase(key);
    else
      rows[key] = {key, value, expected + 1};
    done(expected + 1);
  }

private:
  std::map<std::string, std::map<std::string, stored_row>> tables_;
};

/// A whole cluster of production actors on virtual time: a node with gateway
/// and controller, and workers with an emulated device each.
class virtual_cluster {
public:
  explicit virtual_cluster(size_t workers, model_settings wanted,
                           emulation how = {}, gateway_options limits = {})
    : how_(how),
      wanted_(std::move(wanted)),
      limits_(limits) {
    front = &net.add("front", {"gateway", "controller"});
    start(*front, controller_children());
    for (size_t i = 1; i <= workers; ++i)
      add_worker("w" + std::to_string(i));
    world.advance(3s, 10ms);
  }

  /// The actors end while the nodes they talk through are still there.
  ~virtual_cluster() { world.end(); }

  void add_worker(const std::string& name) {
    auto& b = net.add(name, {"worker"});
    start(b, worker_children(), {{"emu0", "emulated", 1, {}}});
  }

  infer ask(float first = 0) {
    infer out;
    out.model = wanted_.model;
    out.inputs.push_back({"", floats({1, 4}, first)});
    return out;
  }

  /// The status each request was answered with, each exactly once.
  std::map<ec, size_t> answers() {
    std::map<ec, size_t> out;
    for (auto& [id, replies] : front->replies) {
      CHECK(replies.size() == 1);
      ++out[replies.front().status];
    }
    return out;
  }

  caf::strong_actor_ptr actor(const std::string& address) {
    return front->resolve(address);
  }

  /// The answer of an actor, or the error in its place.
  template <class Answer, class Actor, class Question>
  result<Answer> ask_actor(const std::string& address, const Question& x) {
    std::optional<result<Answer>> out;
    auto asked = world.self->request(caf::actor_cast<Actor>(actor(address)),
                                     caf::infinite, x);
    world.drain();
    asked.receive([&](Answer& y) { out.emplace(std::move(y)); },
                  [&](const caf::error& e) { out.emplace(from_caf(e)); });
    return std::move(*out);
  }

  /// What a node's monitor says.
  node_load load_of(const std::string& node) {
    return *ask_actor<node_load, monitor_actor>(node + "/monitor", get_load{});
  }

  virtual_world world;
  virtual_net net{world};
  virtual_bus* front = nullptr;
  std::shared_ptr<metrics> counts = std::make_shared<metrics>();
  std::shared_ptr<health> front_health = std::make_shared<health>();

private:
  void start(virtual_bus& b, std::vector<child_spec> children,
             std::vector<device_info> devices = {}) {
    supervisor_options x;
    x.net = &b;
    x.counts = counts;
    x.state = &b == front ? front_health : std::make_shared<health>();
    x.children = std::move(children);
    x.worker = !devices.empty();
    x.devices = std::move(devices);
    x.ended = [] {};
    auto s = world.adopt(world.system.spawn(supervisor, std::move(x)));
    b.publish("supervisor", caf::actor_cast<caf::strong_actor_ptr>(s));
  }

  std::vector<child_spec> worker_children() {
    auto models = std::vector<std::string>{wanted_.model, "other"};
    return {
      {"cache", "",
       [models](supervisor_actor::pointer self) {
         return caf::actor_cast<caf::actor>(
           self->spawn(cache, std::shared_ptr<bundle_reader>{
                                std::make_shared<made_bundles>(models)}));
       }},
      {"monitor", "",
       [this](supervisor_actor::pointer self) {
         return caf::actor_cast<caf::actor>(self->spawn(
           monitor, host_probe{[] { return host_reading{}; }}, counts));
       }},
      {"executor/emu0", "",
       [this](supervisor_actor::pointer self) {
         device_factory make =
           [this](
             device_listener& listener) -> result<std::unique_ptr<device>> {
           return make_emulated_device({"emu0", "emulated", 1, {}}, how_,
                                       listener);
         };
         return caf::actor_cast<caf::actor>(self->spawn(
           executor, make, static_cast<caf::execution_unit*>(nullptr), counts));
       }},
    };
  }

  std::vector<child_spec> controller_children() {
    struct handles {
      placement_actor placement;
      autoscaler_actor autoscaler;
    };
    auto made = std::make_shared<handles>();
    auto facts = std::make_shared<memory_store>();
    return {
      {"placement", "controller",
       [made](supervisor_actor::pointer self) {
         made->placement = self->spawn(placement, placement_options{});
         return caf::actor_cast<caf::actor>(made->placement);
       }},
      {"autoscaler", "controller",
       [made](supervisor_actor::pointer self) {
         made->autoscaler = self->spawn(fixed_autoscaler, made->placement);
         return caf::actor_cast<caf::actor>(made->autoscaler);
       }},
      {"registry", "controller",
       [made, facts, this](supervisor_actor::pointer self) {
         return caf::actor_cast<caf::actor>(self->spawn(
           registry, std::static_pointer_cast<store>(facts), made->autoscaler,
           made->placement, std::vector<model_settings>{wanted_}));
       }},
      {"gateway", "",
       [this](supervisor_actor::pointer self) {
         return caf::actor_cast<caf::actor>(
           self->spawn(gateway, limits_, static_cast<bus*>(front), counts));
       }},
    };
  }

  emulation how_;
  model_settings wanted_;
  gateway_options limits_;
};

} // namespace millrace::test
