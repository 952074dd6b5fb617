// SPDX-License-Identifier: Apache-2.0
#include "simulator/simulation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace::simulator {

namespace {

/// How often progress is told of.
constexpr int progress_steps = 1000;

/// Longer than any request may take (gateway_options::max_deadline).
constexpr auto last_answers = 20min;

} // namespace

simulation::simulation(const loaded_scenario& what, options how)
  : what_(what),
    how_(std::move(how)),
    patience_(random_stream{how_.seed}.fork("patience")),
    begin_(virtual_world::beginning + what.spec.warm_up) {
  for (auto& [name, config] : what.cluster.nodes)
    if (std::count(config.roles.begin(), config.roles.end(), node_role::gateway)
        != 0)
      gateways_.push_back(name);
}

simulation::~simulation() {
  finish();
}

void simulation::finish() {
  watchers_.clear();
  cluster_.reset();
  set_log_sink({});
}

result<std::unique_ptr<simulation>>
simulation::prepare(const loaded_scenario& what, options how) {
  std::unique_ptr<simulation> out{new simulation{what, std::move(how)}};
  if (auto done = out->make_workload(); !done)
    return done.failure();
  return out;
}

result<void> simulation::make_workload() {
  random_stream random{how_.seed};
  for (size_t i = 0; i < what_.spec.workload.size(); ++i) {
    auto& part = what_.spec.workload[i];
    auto longest = what_.spec.length - part.start;
    auto length = part.length > 0us ? std::min(part.length, longest) : longest;
    auto name = "workload " + std::to_string(i);
    std::vector<uint32_t> function;
    auto times =
      make_arrivals(part, length, random.fork(name + " times"), &function);
    if (!times)
      return std::move(times.failure())
        .within("workload[" + std::to_string(i) + "]");
    stream s;
    s.part = &part;
    s.random = random.fork(name + " models");
    for (auto& [model, weight] : part.mix)
      s.total_weight += weight;
    s.arrivals.reserve(times->size());
    for (size_t k = 0; k < times->size(); ++k)
      s.arrivals.push_back(
        {part.start + (*times)[k], k < function.size() ? function[k] : 0});
    streams_.push_back(std::move(s));
  }
  return {};
}

void simulation::run(const std::function<void(double)>& progress,
                     const std::function<bool()>& stop) {
  cluster_.reset(new cluster{what_, how_.seed, *this});
  injector_ = std::make_unique<fault_injector>(*cluster_);
  world_ = &cluster_->world();
  auto& world = *world_;
  cluster_->plant(how_.bug);
  if (how_.shuffle)
    world.shuffle(random_stream{how_.seed}.fork("order"));
  set_log_sink([this](log_level level, std::string_view line) {
    tell(&watcher::on_log, level, line, now());
  });
  auto from = now();
  cluster_->start();
  for (size_t i = 0; i < streams_.size(); ++i)
    schedule(i);
  schedule_faults();
  auto end = begin_ + what_.spec.length;
  auto over = [&] { return stands_still() || (stop && stop()); };
  for (int i = 1; i <= progress_steps; ++i) {
    world.run_until(from + (end - from) * i / progress_steps, over);
    if (over())
      return;
    if (progress)
      progress(static_cast<double>(i) / progress_steps);
  }
  // What is still open is answered by its deadline, or never.
  world.run_until(end + last_answers, [&] { return open_.empty() || over(); });
}

/// Something goes round in circles and waits for nothing.
bool simulation::stands_still() {
  if (std::exchange(moment_, now()) != now())
    before_moment_ = world_->messages();
  auto n = world_->messages() - before_moment_;
  if (!stuck_ && n > how_.most_at_once) {
    stuck_ = true;
    tell(&watcher::on_stuck, n, now());
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
  if (how_.heal_at)
    world_->at(begin_ + *how_.heal_at, [this] { injector_->heal(); });
}

// -- requests -----------------------------------------------------------------

void simulation::schedule(size_t n) {
  auto& s = streams_[n];
  if (s.next < s.arrivals.size())
    world_->at(begin_ + s.arrivals[s.next].at, [this, n] { submit(n); });
}

const std::string& simulation::choose_model(stream& s, uint32_t function) {
  if (s.part->mix.empty())
    return s.part->model;
  // A function keeps its model.
  auto at = s.part->arrivals == arrival_process::functions
              ? s.random.fork("function " + std::to_string(function)).uniform()
              : s.random.uniform();
  at *= s.total_weight;
  auto chosen = s.part->mix.begin();
  for (auto i = chosen; i != s.part->mix.end(); ++i) {
    chosen = i;
    if ((at -= i->second) < 0)
      break;
  }
  return chosen->first;
}

node* simulation::next_gateway() {
  for (size_t i = 0; i < gateways_.size(); ++i) {
    auto& x = cluster_->at(gateways_[next_gateway_++ % gateways_.size()]);
    if (x.running())
      return &x;
  }
  return nullptr;
}

infer simulation::make_request(const stream& s, const std::string& model,
                               uint64_t id) {
  infer out;
  out.model = model;
  out.application = s.part->application;
  if (s.part->slo > 0us)
    out.slo = s.part->slo;
  auto& bundles = what_.spec.bundles;
  auto known = std::find_if(bundles.begin(), bundles.end(), [&](auto& x) {
    return x.first == model
           || (model.empty() && x.second.application == out.application);
  });
  auto rows = s.part->rows;
  auto add = [&](uint64_t row, shared_bytes data) {
    shape extents{static_cast<int64_t>(rows), static_cast<int64_t>(row)};
    out.inputs.push_back({"", tensor{dtype::u8, extents, std::move(data)}});
  };
  auto marked = [&](uint64_t bytes) {
    std::string y(bytes, '\0');
    std::memcpy(y.data(), &id, std::min(sizeof id, y.size()));
    return shared_bytes::copy_of(y);
  };
  if (known == bundles.end())
    return add(1, marked(rows)), out; // somebody will say that there is none
  auto row = known->second.input.value;
  if (!is_tagged(known->second))
    return add(row, marked(rows * row)), out;
  add(tag_bytes, marked(rows * tag_bytes));
  auto& shared = inputs_[known->first + "/" + std::to_string(rows)];
  if (shared.size() == 0)
    shared = shared_bytes::copy_of(std::string(rows * row, '\0'));
  add(row, shared);
  return out;
}

void simulation::submit(size_t n) {
  auto& s = streams_[n];
  auto& x = s.arrivals[s.next++];
  auto& model = choose_model(s, x.function);
  auto id = ++last_id_;
  auto* gateway = next_gateway();
  sent_request sent;
  sent.id = id;
  sent.part = static_cast<uint32_t>(n);
  sent.function = x.function;
  sent.model = model;
  sent.application = s.part->application;
  sent.when = now();
  auto deadline =
    s.part->deadline > 0us ? s.part->deadline : microseconds::max();
  sent.due = s.part->deadline > 0us ? now() + deadline : far_future;
  if (gateway != nullptr)
    sent.gateway = gateway->name();
  sent.from = {0, "client-" + std::to_string(n)};
  tell(&watcher::on_sent, sent);
  if (gateway != nullptr) {
    open_.emplace(id, &gateway->name());
    gateway->bus()->client_sends(sent.from, id, make_request(s, model, id),
                                 deadline);
    if (how_.cancelled > 0 && patience_.uniform() < how_.cancelled)
      cancel_some(gateway->name(), sent.from, id);
  } else {
    tell(&watcher::on_cut_short, id, now());
  }
  schedule(n);
}

void simulation::cancel_some(const std::string& gateway, const session& from,
                             uint64_t id) {
  auto after = microseconds{1 + static_cast<int64_t>(patience_.below(50'000))};
  world_->at(now() + after, [this, gateway, from, id] {
    auto& x = cluster_->at(gateway);
    if (!open_.contains(id) || !x.running())
      return;
    tell(&watcher::on_cancelled, id, now());
    x.bus()->client_cancels(from, id);
  });
}

void simulation::on_reply(const session& to, uint64_t id, infer_reply& x) {
  open_.erase(id);
  tell(&watcher::on_reply, to, id, x, now());
}

void simulation::on_operator_answer(const std::string&, uint64_t id,
                                    const caf::message& x) {
  if (id == last_question_)
    answer_ = x;
}

/// What an operator may not say: were it heard, a model would be loaded that
/// nobody asked for.
void simulation::intrude() {
  world_->at(now() + 1s, [this] { intrude(); });
  for (auto& [name, x] : cluster_->nodes())
    if (x->running() && !x->paused()) {
      deploy order;
      order.epoch = 1'000'000;
      order.sequence = 1;
      order.what.replica = "intruder.1.1";
      order.what.model = what_.spec.bundles.begin()->first;
      order.what.version = 1;
      order.what.node = name;
      auto& devices = what_.cluster.nodes.at(name).devices;
      order.what.device = devices.empty() ? "" : devices.front().id;
      x->bus()->operator_says(1, name + "/supervisor", order);
    }
}

// -- nodes and devices --------------------------------------------------------

void simulation::on_node(const std::string& node, std::string_view what) {
  log_event(log_level::info, "simulator", what, {{"node", node}});
  tell(&watcher::on_node, node, what, now());
  if (cluster_ == nullptr || cluster_->at(node).running())
    return;
  // Its clients see their connections break, and know nothing more.
  std::vector<uint64_t> cut;
  for (auto& [id, gateway] : open_)
    if (*gateway == node)
      cut.push_back(id);
  std::sort(cut.begin(), cut.end());
  for (auto id : cut) {
    open_.erase(id);
    tell(&watcher::on_cut_short, id, now());
  }
}

void simulation::on_loaded(const std::string& node, const std::string& device,
                           const load_request& x, timestamp begun,
                           const result<load_report>& how) {
  tell(&watcher::on_loaded, node, device, x, begun, how, now());
}

void simulation::on_unloaded(const std::string& node, const std::string& device,
                             instance_id x) {
  tell(&watcher::on_unloaded, node, device, x, now());
}

void simulation::on_given(const executed_batch& x) {
  tell(&watcher::on_given, x, now());
}

void simulation::on_executed(const executed_batch& x) {
  tell(&watcher::on_executed, x);
}

void simulation::on_link(const member& who, const member& whom, bool up) {
  tell(&watcher::on_link, who, whom, up, now());
}

void simulation::on_delivered(const member& from, const member& to,
                              const header& what) {
  tell(&watcher::on_delivered, from, to, what, now());
}

} // namespace millrace::simulator
