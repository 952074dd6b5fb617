// SPDX-License-Identifier: Apache-2.0
#include "simulator/node.hpp"

#include "actors/node/supervisor_state.hpp"
#include "runtime/virtual/store.hpp"
#include "simulator/machines.hpp"
#include "simulator/objects.hpp"
#include "simulator/observed_device.hpp"
#include "simulator/observed_store.hpp"
#include "transport/objects/stored_bundles.hpp"

namespace millrace::simulator {

namespace {

/// Pause until a process that could not start is started again.
constexpr microseconds restart_pause = 200ms;

/// The table and key of a node's start counter.
const std::string starts_table = "starts";
const std::string starts_key = "incarnation";

bandwidth disk_speed_of(const loaded_scenario& what, const std::string& node) {
  auto i = what.disk_speed.find(node);
  return i == what.disk_speed.end() ? bandwidth{} : i->second;
}

/// Clock origins of processes are random within this many hours.
constexpr uint64_t clock_hours = 10'000;

} // namespace

node::node(const node_environment_plan& plan, std::string name)
  : plan_(plan),
    name_(std::move(name)),
    host_(plan.links->network().add_host(
      name_, plan.what->cluster.nodes.at(name_).rack)),
    random_(plan.random.fork("node " + name_)),
    disk_(std::make_shared<virtual_disk>(random_.fork("disk"))),
    models_(plan_.links->network(), host_, disk_speed_of(*plan_.what, name_)) {
  disk_->fail([faults = faults_,
               random = random_.fork("disk faults")](disk_step x) mutable {
    return x != disk_step::read && faults->failing_writes > 0
           && random.uniform() < faults->failing_writes;
  });
}

node::~node() {
  if (process_ == nullptr)
    return;
  vanish();
  process_->end();
}

void node::vanish() {
  bus_->vanish();
  if (bulk_)
    bulk_->vanish();
}

void node::start() {
  if (process_ != nullptr)
    return;
  wanted_ = true;
  std::unique_ptr<fact_journal> facts;
  auto incarnation = open_facts(facts);
  if (!incarnation) {
    tell("gave_up");
    plan_.world->at(plan_.world->now() + restart_pause, [this] {
      if (wanted_)
        start();
    });
    return;
  }
  ++starts_;
  process_ = &plan_.world->add_process(
    name_, std::chrono::hours{random_.below(clock_hours)});
  auto& config = plan_.what->cluster;
  auto& mine = config.nodes.at(name_);
  auto link = plan_.links->network().speed(host_);
  member self{name_,
              *incarnation,
              "simulated://" + name_,
              {},
              mine.rack,
              mine.host.empty() ? name_ : mine.host,
              static_cast<uint64_t>(link.bytes_per_second)};
  for (auto x : mine.roles)
    self.roles.emplace_back(to_string(x));
  bus_ = std::make_unique<simulated_bus>(
    *process_, *plan_.links, std::move(self), host_, *plan_.seen_by);
  node_environment environment;
  environment.net = bus_.get();
  environment.counts = std::make_shared<metrics>(recording::off);
  environment.state = state_ = std::make_shared<health>();
  environment.facts = observe_store(
    make_virtual_store(*process_, std::move(facts), plan_.what->spec.sync),
    name_, *plan_.seen_by);
  environment.read_bundles = [this] {
    return make_simulated_reader(bundles());
  };
  environment.memory = plan_.models->memory();
  if (plan_.bulk != nullptr) {
    environment.bulk = bulk_ =
      simulated_bulk::make(*process_, plan_.links->network(), host_, name_,
                           *plan_.bulk, open_stores());
    environment.draw_token =
      [random =
         random_.fork("tokens of start " + std::to_string(starts_))]() mutable {
        return std::to_string(random.next());
      };
  }
  environment.open_store =
    [this](
      const object_store_config& x) -> result<std::unique_ptr<object_store>> {
    return open_objects(x.parallel);
  };
  environment.keep_bundles = [this](const std::string&, const memory_maker&) {
    return make_simulated_keeper(bundles());
  };
  attached_ = std::make_shared<host_process>();
  environment.make_device = [this](const device_config& d,
                                   device_listener& to) {
    return make_device(d, to);
  };
  if (plan_.what->cluster.known_profiles)
    environment.known_profiles = plan_.profiles;
  if (plan_.machines != nullptr)
    environment.machines = plan_.machines->source_for(*process_);
  environment.probe = [] { return host_reading{}; };
  environment.aside = [](const std::function<void()>& job) { job(); };
  environment.wall_clock = [this] {
    return to_us(plan_.world->now().time_since_epoch());
  };
  environment.ended = [this] {
    // Not in the stack of one of the node's own actors.
    plan_.world->at(plan_.world->now(), [this] {
      if (process_ == nullptr)
        return;
      plan_.links->leave(*bus_);
      end("left");
    });
  };
  plan_.world->soon(*process_, [this, environment = std::move(environment)] {
    auto x = process_->adopt(process_->system().spawn(
      millrace::supervisor,
      compose_node(plan_.what->cluster, name_, environment)));
    bus_->publish("supervisor", caf::actor_cast<caf::strong_actor_ptr>(x));
  });
  plan_.links->join(*bus_, [this](const hello_rejected& x) {
    // As a real process: corrects its start counter, ends, and is restarted.
    end("refused");
    if (x.alive)
      return;
    std::unique_ptr<fact_journal> journal;
    static_cast<void>(open_facts(journal, x.known));
    journal.reset();
    start();
  });
  tell("started");
}

void node::end(std::string_view why) {
  vanish();
  process_->end();
  bus_.reset();
  bulk_.reset();
  process_ = nullptr;
  tell(why);
}

void node::tell(std::string_view what) {
  plan_.seen_by->on_node(name_, what, plan_.world->now());
}

void node::kill() {
  wanted_ = false;
  if (process_ == nullptr)
    return;
  end("killed");
  if (random_.below(2) == 0)
    disk_->lose_power(); // a kill takes the host down, too
}

void node::wipe() {
  disk_->wipe();
  models_.kept().clear();
  tell("wiped");
}

/// Opens the journal and increments the start counter in it.
result<uint64_t> node::open_facts(std::unique_ptr<fact_journal>& out,
                                  uint64_t least) {
  auto facts = fact_journal::open(disk_->open(), facts_file);
  if (!facts) {
    // Journals stay readable after power cuts.
    MILLRACE_ASSERT(facts.failure().code == ec::unavailable);
    return facts.failure();
  }
  out = std::move(*facts);
  plan_.seen_by->on_recovered(name_, out->tables(), plan_.world->now());
  if (!out->mended().empty())
    log_event(log_level::info, "simulator", "mended",
              {{"node", name_}, {"what", out->mended()}});
  auto start = out->raise(starts_table, starts_key, least);
  if (start)
    plan_.seen_by->on_store(
      {name_, starts_table, out->tables().at(starts_table).at(starts_key)},
      store_event::told);
  return start;
}

void node::pause() {
  if (process_ == nullptr || process_->paused())
    return;
  process_->pause();
  plan_.links->silence(*bus_);
  tell("paused");
}

void node::resume() {
  if (!paused())
    return;
  process_->resume();
  plan_.links->wake(*bus_);
  tell("resumed");
}

void node::drain() {
  if (process_ == nullptr)
    return;
  plan_.world->soon(*process_, [this] {
    if (auto x = bus_->resolve("./supervisor"))
      caf::anon_send(caf::actor_cast<supervisor_actor>(x), millrace::drain{});
  });
}

void node::crash(const std::string& prefix, uint64_t lot) {
  if (process_ == nullptr)
    return;
  auto names = bus_->published(prefix);
  std::erase(names, "supervisor");
  if (names.empty())
    return;
  auto& name = names[lot % names.size()];
  log_event(log_level::info, "simulator", "crashed",
            {{"node", name_}, {"actor", name}});
  plan_.world->soon(*process_, [this, name] {
    caf::anon_send_exit(bus_->resolve("./" + name), caf::exit_reason::kill);
  });
}

template <class T>
void node::send_to_executors(const T& message) {
  for (auto& name : bus_->published("executor/"))
    if (auto executor = bus_->resolve("./" + name))
      caf::anon_send(caf::actor_cast<executor_actor>(executor), message);
}

void node::set_pace(double times_slower) {
  times_slower_ = times_slower;
  if (process_ != nullptr)
    plan_.world->soon(*process_, [this, times_slower] {
      send_to_executors(slow_device{{}, times_slower});
    });
}

void node::set_usable(bool usable) {
  faults_->unusable_devices = !usable;
  if (process_ != nullptr)
    plan_.world->soon(*process_, [this] { send_to_executors(tick::value); });
}

bundle_environment node::bundles() {
  return {name_, plan_.what->spec, *process_, *plan_.models, models_};
}

std::unique_ptr<object_store> node::open_objects(uint64_t parallel) {
  return make_simulated_objects(
    {name_, host_, *process_, plan_.links->network(), *plan_.models, faults_,
     random_.fork("fetches of start " + std::to_string(starts_)),
     *plan_.seen_by},
    parallel);
}

store_sources::stores node::open_stores() {
  store_sources::stores out;
  for (auto& [name, x] : plan_.what->cluster.object_stores)
    out[std::string{store_prefix} + name] =
      std::make_shared<stored_bundles>(open_objects(x.parallel), x.parallel);
  return out;
}

result<std::unique_ptr<device>> node::make_device(const device_config& settings,
                                                  device_listener& to) {
  emulated_environment environment;
  environment.profiles = plan_.profiles;
  environment.times_slower = times_slower_;
  environment.process = attached_;
  auto random =
    random_.fork(settings.id + " of start " + std::to_string(starts_));
  // The same seed for each start of the node.
  environment.contention_seed =
    random_.fork("contention on " + settings.id).next();
  if (settings.emulate.cv > 0)
    environment.random = random.fork("times");
  return observe_device(
    {name_, settings.id, std::max(1u, settings.lanes), process_, faults_,
     random.fork("faults"), plan_.seen_by, plan_.bug == planted_bug::forgotten},
    to, [&](device_listener& inner) {
      return make_emulated_device(describe(settings), settings.emulate, inner,
                                  environment);
    });
}

} // namespace millrace::simulator
