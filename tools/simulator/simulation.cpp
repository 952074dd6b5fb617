// SPDX-License-Identifier: Apache-2.0
#include "simulator/simulation.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/log.hpp"

namespace millrace::simulator {

namespace {

/// Inputs up to here carry their request's id, so that every answer can be
/// told to be the right one; larger ones share their bytes.
constexpr uint64_t marked_bytes = 4096;

/// How often progress is told of, in virtual time at most.
constexpr int progress_steps = 1000;

} // namespace

uint32_t name_list::number_of(const std::string& x) {
  auto [i, fresh] =
    numbers_.try_emplace(x, static_cast<uint32_t>(names_.size()));
  if (fresh)
    names_.push_back(x);
  return i->second;
}

simulation::simulation(const loaded_scenario& what, uint64_t seed)
  : what_(what),
    seed_(seed) {
  for (auto& [name, config] : what.cluster.nodes)
    if (std::count(config.roles.begin(), config.roles.end(), node_role::gateway)
        != 0)
      gateways_.push_back(name);
}

simulation::~simulation() {
  cluster_.reset();
  set_log_sink({});
}

result<std::unique_ptr<simulation>>
simulation::prepare(const loaded_scenario& what, uint64_t seed) {
  std::unique_ptr<simulation> out{new simulation{what, seed}};
  if (auto done = out->make_workload(); !done)
    return done.failure();
  return out;
}

result<void> simulation::make_workload() {
  random_stream random{seed_};
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
    s.deadline = part.deadline;
    streams_.push_back(std::move(s));
  }
  return {};
}

microseconds simulation::since_start(timestamp x) const {
  return to_us(x - begin_);
}

void simulation::run(const std::function<void(double)>& progress) {
  cluster_.reset(new cluster{what_, seed_, *this});
  world_ = &cluster_->world();
  auto& world = *world_;
  auto& spec = what_.spec;
  begin_ = world.now() + spec.warm_up;
  record_.length = spec.length;
  set_log_sink([this, &world](log_level level, std::string_view line) {
    if (what_.spec.record.events)
      record_.events.push_back(
        {since_start(world.now()), std::string{line}, level});
  });
  cluster_->start();
  for (size_t i = 0; i < streams_.size(); ++i)
    schedule(i);
  auto end = begin_ + spec.length;
  auto whole = to_seconds(end - world.now());
  auto from = world.now();
  for (int i = 1; i <= progress_steps; ++i) {
    world.run_until(from + (end - from) * i / progress_steps);
    if (progress)
      progress(to_seconds(world.now() - from) / whole);
  }
  // What is still open is answered by its deadline, or never.
  world.run_until(end + std::chrono::hours{1}, [this] { return open_ == 0; });
  for (auto& [name, since] : up_since_)
    record_.reserved[name] +=
      to_us(std::max(end, since) - std::max(since, begin_));
  record_.messages = world.messages();
  record_.actions = world.actions();
  record_.delivered = cluster_->links().delivered();
  for (auto& [name, x] : cluster_->nodes())
    if (x->running())
      record_.actors += x->process()->actors();
  cluster_.reset();
  set_log_sink({});
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
  auto known = what_.spec.bundles.find(model);
  if (known == what_.spec.bundles.end())
    known = std::find_if(
      what_.spec.bundles.begin(), what_.spec.bundles.end(),
      [&](auto& x) { return x.second.application == out.application; });
  auto row = known == what_.spec.bundles.end() ? 1 : known->second.input.value;
  auto bytes = row * s.part->rows;
  shared_bytes data;
  if (bytes > marked_bytes) {
    auto& shared = inputs_[known->first + "/" + std::to_string(s.part->rows)];
    if (shared.size() == 0)
      shared = shared_bytes::copy_of(std::string(bytes, '\0'));
    data = shared;
  } else {
    std::string marked(bytes, '\0');
    std::memcpy(marked.data(), &id, std::min(sizeof id, marked.size()));
    data = shared_bytes::copy_of(marked);
  }
  out.inputs.push_back(
    {"", tensor{dtype::u8,
                {static_cast<int64_t>(s.part->rows), static_cast<int64_t>(row)},
                std::move(data)}});
  return out;
}

void simulation::submit(size_t n) {
  auto& s = streams_[n];
  auto& x = s.arrivals[s.next++];
  auto& model = choose_model(s, x.function);
  auto id = record_.requests.size() + 1;
  request_row row;
  row.part = static_cast<uint32_t>(n);
  row.model = record_.names.number_of(model);
  row.function = x.function;
  row.sent = x.at;
  row.status = ec::unavailable;
  record_.requests.push_back(row);
  if (auto* gateway = next_gateway()) {
    auto deadline = s.deadline > 0us ? s.deadline : microseconds::max();
    ++open_;
    gateway->bus()->client_sends({0, "client-" + std::to_string(n)}, id,
                                 make_request(s, model, id), deadline);
  }
  schedule(n);
}

void simulation::on_reply(const session&, uint64_t id, infer_reply& x) {
  auto& row = record_.requests[id - 1];
  if (row.answers++ == 0)
    --open_;
  row.answered = since_start(world_->now());
  row.status = x.status;
  row.queue = x.queue;
  row.execute = x.execute;
  row.batch = x.batch;
  row.replica = record_.names.number_of(x.replica);
  if (!x.model.empty())
    row.model = record_.names.number_of(x.model);
}

// -- nodes and devices --------------------------------------------------------

void simulation::on_node(const std::string& node, std::string_view what) {
  auto now = world_->now();
  log_event(log_level::info, "simulator", what, {{"node", node}});
  if (what == "started") {
    up_since_[node] = now;
  } else if (what != "paused" && what != "resumed") {
    auto since = std::max(up_since_[node], begin_);
    record_.reserved[node] += to_us(std::max(now, since) - since);
    up_since_.erase(node);
    auto i = copies_.lower_bound(node + "/");
    for (; i != copies_.end() && i->first.starts_with(node + "/");
         i = copies_.erase(i))
      record_.replicas[i->second].ended = since_start(now);
  }
}

void simulation::on_loaded(const std::string& node, const std::string& device,
                           const load_request& x, timestamp begun,
                           const result<load_report>& how) {
  replica_row row;
  auto place = node + "/" + device;
  row.device = record_.names.number_of(place);
  row.model = record_.names.number_of(x.content->info.name);
  row.begun = since_start(begun);
  if (how) {
    row.ready = since_start(world_->now());
    copies_[place + "#" + std::to_string(x.instance)] = record_.replicas.size();
  }
  record_.replicas.push_back(row);
}

void simulation::on_unloaded(const std::string& node, const std::string& device,
                             instance_id x) {
  auto i = copies_.find(node + "/" + device + "#" + std::to_string(x));
  if (i == copies_.end())
    return;
  record_.replicas[i->second].ended = since_start(world_->now());
  copies_.erase(i);
}

void simulation::on_executed(const executed_batch& x) {
  batch_row row;
  row.device = record_.names.number_of(x.node + "/" + x.device);
  row.model = record_.names.number_of(x.model);
  row.requests = static_cast<uint32_t>(x.items.size());
  row.ok = x.ok;
  row.started = since_start(x.started);
  row.ended = since_start(x.ended);
  record_.batches.push_back(row);
}

} // namespace millrace::simulator
