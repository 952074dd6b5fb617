// SPDX-License-Identifier: Apache-2.0
#include "simulator/simulation.hpp"

#include <algorithm>
#include <utility>

namespace millrace::simulator {

namespace {

/// Number of progress reports of a run.
constexpr int progress_steps = 1000;

/// Time to wait for answers after the last deadline.
constexpr auto grace = 10min;

/// The longest deadline of the scenario's models.
microseconds longest_deadline(const loaded_scenario& what) {
  microseconds out{serving_policy{}.deadline};
  for (auto& part : what.spec.workload)
    out = std::max(out, part.deadline);
  for (auto& model : what.spec.models)
    out = std::max(out, model.policy.deadline);
  return out;
}

/// The bytes that each link carried between two moments.
std::vector<link_use> difference(std::vector<link_use> later,
                                 const std::vector<link_use>& earlier) {
  for (size_t l = 0; l < earlier.size(); ++l) {
    later[l].bytes -= earlier[l].bytes;
    later[l].shared_bytes -= earlier[l].shared_bytes;
    later[l].room -= earlier[l].room;
  }
  return later;
}

} // namespace

simulation::simulation(const loaded_scenario& what, options how, workload asked)
  : what_(what),
    how_(std::move(how)),
    asked_(std::move(asked)),
    patience_(random_stream{how_.seed}.fork("patience")),
    choice_(random_stream{how_.seed}.fork("operator")),
    begin_(virtual_world::beginning + what.spec.warm_up) {
  for (auto& [name, config] : what.cluster.nodes)
    if (std::count(config.roles.begin(), config.roles.end(), node_role::gateway)
        != 0)
      gateways_.push_back(name);
  add(ready_);
  add(use_);
}

simulation::~simulation() {
  finish();
}

std::vector<link_use> simulation::all_links() const {
  return difference(cluster_->network().use(), unused_links_);
}

void simulation::finish() {
  clear();
  cluster_.reset();
  set_log_sink({});
}

result<std::unique_ptr<simulation>>
simulation::prepare(const loaded_scenario& what, options how) {
  auto asked = workload::make(what, how.seed);
  if (!asked)
    return asked.failure();
  return std::unique_ptr<simulation>{
    new simulation{what, std::move(how), std::move(*asked)}};
}

void simulation::run(const std::function<void(double)>& progress,
                     const std::function<bool()>& stop) {
  cluster_.reset(new cluster{what_, how_.seed, *this});
  unused_links_ = cluster_->network().use();
  injector_ = std::make_unique<fault_injector>(*cluster_, ready_);
  world_ = &cluster_->world();
  auto& world = *world_;
  cluster_->plant(how_.bug);
  if (how_.shuffle)
    world.shuffle(random_stream{how_.seed}.fork("order"));
  set_log_sink([this](log_level level, std::string_view line) {
    on_log(level, line, now());
  });
  auto from = now();
  cluster_->start();
  schedule();
  schedule_faults();
  auto end = begin_ + what_.spec.length;
  auto over = [&] { return stands_still() || (stop && stop()); };
  world.run_until(begin_, over);
  if (over())
    return;
  auto before = cluster_->network().use();
  for (int i = 1; i <= progress_steps; ++i) {
    auto until =
      i == progress_steps ? end : from + (end - from) / progress_steps * i;
    world.run_until(std::max(begin_, until), over);
    if (over())
      return;
    if (progress)
      progress(static_cast<double>(i) / progress_steps);
  }
  links_ = difference(cluster_->network().use(), before);
  // Open requests are answered by their deadlines, or never.
  world.run_until(end + longest_deadline(what_) + grace,
                  [&] { return open_.empty() || over(); });
}

/// Whether too many messages are handled without time passing: a livelock.
bool simulation::stands_still() {
  if (std::exchange(moment_, now()) != now())
    before_moment_ = world_->messages();
  auto n = world_->messages() - before_moment_;
  if (!stuck_ && n > how_.most_at_once) {
    stuck_ = true;
    on_stuck(n, now());
  }
  return stuck_;
}

void simulation::schedule_faults() {
  auto all = plan_faults(what_, random_stream{how_.seed}.fork("faults"));
  all.insert(all.end(), how_.faults.begin(), how_.faults.end());
  for (auto& x : all)
    world_->at(begin_ + x.at, [this, x] { injector_->inject(x); });
  if (how_.intruder)
    world_->at(begin_, [this] { intrude(); });
  if (how_.registers)
    world_->at(begin_, [this] { register_something(); });
  if (how_.heal_at)
    world_->at(begin_ + *how_.heal_at, [this] { injector_->heal(); });
}

// -- requests -----------------------------------------------------------------

void simulation::schedule() {
  auto& all = asked_.requests();
  if (next_ < all.size())
    world_->at(begin_ + all[next_].at, [this] { submit(); });
}

node* simulation::next_gateway() {
  for (size_t i = 0; i < gateways_.size(); ++i) {
    auto& x = cluster_->at(gateways_[next_gateway_++ % gateways_.size()]);
    if (x.running())
      return &x;
  }
  return nullptr;
}

void simulation::submit() {
  auto& x = asked_.requests()[next_++];
  auto& part = asked_.part(x);
  auto id = next_;
  auto* gateway = next_gateway();
  sent_request sent;
  sent.id = id;
  sent.part = x.part;
  sent.function = x.function;
  sent.from = {0, "client-" + std::to_string(x.part)};
  sent.model = asked_.choose_model(x);
  sent.application = part.application;
  sent.when = now();
  auto deadline = part.deadline > 0us ? part.deadline : microseconds::max();
  sent.due = part.deadline > 0us ? now() + deadline : far_future;
  if (gateway != nullptr)
    sent.gateway = gateway->name();
  auto request = asked_.make_request(x, sent.model, id);
  sent.bytes = bytes_of(request.inputs);
  on_sent(sent);
  if (gateway != nullptr) {
    open_.emplace(id, &gateway->name());
    gateway->bus()->client_sends(sent.from, id, std::move(request), deadline);
    if (how_.cancelled > 0 && patience_.uniform() < how_.cancelled)
      cancel_some(gateway->name(), sent.from, id);
  } else {
    on_cut_short(id, now());
  }
  schedule();
}

void simulation::cancel_some(const std::string& gateway, const session& from,
                             uint64_t id) {
  auto after = microseconds{1 + static_cast<int64_t>(patience_.below(50'000))};
  world_->at(now() + after, [this, gateway, from, id] {
    auto& x = cluster_->at(gateway);
    if (!open_.contains(id) || !x.running())
      return;
    on_cancelled(id, now());
    x.bus()->client_cancels(from, id);
  });
}

void simulation::on_reply(const session& to, uint64_t id,
                          const infer_reply& reply, timestamp when) {
  open_.erase(id);
  broadcast::on_reply(to, id, reply, when);
}

void simulation::on_operator_answer(const std::string&, uint64_t id,
                                    const caf::message& content) {
  if (id == last_question_)
    answer_ = content;
}

/// Sends orders that only a controller may send: as an operator, and as a
/// replaced controller. If a node obeyed, it would load a model that was never
/// requested.
void simulation::intrude() {
  world_->at(now() + 3s, [this] { intrude(); });
  if (what_.spec.bundles.empty())
    return; // nothing to load
  for (auto& [name, x] : cluster_->nodes())
    if (x->running() && !x->paused()) {
      deploy order;
      order.epoch = intruder_epoch;
      order.sequence = 1;
      order.what.replica = "intruder.1.1";
      order.what.model = what_.spec.bundles.begin()->first;
      order.what.version = 1;
      order.what.node = name;
      auto& devices = what_.cluster.nodes.at(name).devices;
      order.what.device = devices.empty() ? "" : devices.front().id;
      x->bus()->operator_says(1, name + "/supervisor", order);
      // The same order from a controller of an older epoch.
      order.epoch = order.sequence = 0;
      world_->soon(*x->process(), [bus = x->bus(), order, name = name] {
        if (auto to = bus->resolve("./supervisor"))
          caf::anon_send(caf::actor_cast<supervisor_actor>(to), order);
      });
    }
}

/// Registers or forgets a model without requests and replicas, so that only
/// durable state changes.
void simulation::register_something() {
  world_->at(now() + 500ms, [this] { register_something(); });
  model_settings x;
  x.model = "unused-" + std::to_string(choice_.below(3));
  x.replicas = 0;
  x.policy.queue = 1 + choice_.below(1000);
  auto forget = choice_.below(4) == 0;
  for (auto& [name, node] : cluster_->nodes()) {
    auto& roles = what_.cluster.nodes.at(name).roles;
    if (std::count(roles.begin(), roles.end(), node_role::controller) == 0
        || !node->running())
      continue;
    if (forget)
      node->bus()->operator_says(1, name + "/registry", forget_model{x.model});
    else
      node->bus()->operator_says(1, name + "/registry",
                                 set_model{x, false, {}});
  }
}

// -- nodes and devices --------------------------------------------------------

void simulation::on_machine(const std::string& machine, std::string_view what,
                            timestamp when) {
  log_event(log_level::info, "machine", what, {{"node", machine}});
  broadcast::on_machine(machine, what, when);
}

void simulation::on_node(const std::string& node, std::string_view what,
                         timestamp when) {
  log_event(log_level::info, "simulator", what, {{"node", node}});
  broadcast::on_node(node, what, when);
  if (cluster_ == nullptr || cluster_->at(node).running())
    return;
  // Clients see only that their connections broke.
  std::vector<uint64_t> cut;
  for (auto& [id, gateway] : open_)
    if (*gateway == node)
      cut.push_back(id);
  std::sort(cut.begin(), cut.end());
  for (auto id : cut) {
    open_.erase(id);
    on_cut_short(id, when);
  }
}

} // namespace millrace::simulator
