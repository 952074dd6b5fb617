// SPDX-License-Identifier: Apache-2.0
#include "actors/node/node.hpp"

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <future>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/node/bulk.hpp"
#include "actors/node/devices.hpp"
#include "actors/node/durable_counts.hpp"
#include "actors/node/supervisor_state.hpp"
#include "models/host_memory.hpp"
#include "runtime/build_description.hpp"
#include "runtime/http_server.hpp"
#include "runtime/random.hpp"
#include "runtime/service_notice.hpp"
#include "runtime/store/facts.hpp"
#include "runtime/store/kept_log.hpp"
#include "runtime/text.hpp"
#include "transport/keys/key_file.hpp"
#include "transport/keys/key_watch.hpp"
#include "transport/zmq/zmq_bulk.hpp"
#include "transport/zmq/zmq_bus.hpp"

namespace millrace {

namespace {

/// Returns an unpredictable secret.
std::string random_secret() {
  return std::to_string(entropy()) + "-" + std::to_string(entropy());
}

/// Returns the host name of the system; empty when unknown.
std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : std::string{};
}

/// Reports the condition to the service manager: READY once the node is ready.
void tell_service(node_condition state, const std::string& reason) {
  auto status = "STATUS=" + std::string{to_string(state)}
                + (reason.empty() ? "" : ": " + reason) + "\n";
  if (state == node_condition::ready)
    notify_service("READY=1\n" + status);
  else if (state == node_condition::draining)
    notify_service("STOPPING=1\n" + status);
  else
    notify_service(status);
}

/// An actor that never returns blocks the bus thread. The cluster then
/// continues without this node at once, and a service manager may end the
/// process after this time.
constexpr auto stuck_after = 10s;

/// Size of one part of the event log, in bytes; a node reads the log at its
/// start.
constexpr size_t events_part = 1u << 20;

/// Returns the keys of a node; nothing when the cluster uses no keys.
result<std::optional<node_keys>> keys_of(const cluster_config& config,
                                         const std::string& name) {
  if (config.keys.empty())
    return std::optional<node_keys>{};
  auto& mine = config.nodes.at(name);
  auto controls = std::ranges::count(mine.roles, node_role::controller) != 0;
  auto front = !clients_of(mine).empty() || !mine.operators.empty();
  auto keys = read_node_keys({config.keys, name, controls, front});
  if (!keys)
    return keys.failure();
  return std::optional{std::move(*keys)};
}

class system_config : public caf::actor_system_config {
public:
  system_config() {
    // Wakes idle workers several times faster than the stealing policy.
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", size_t{2});
    millrace::add_error_category(*this);
  }
};

class real_node : public node {
public:
  ~real_node() override {
    if (!supervisor_)
      return;
    // The bus thread may be needed to run the last actors to their end.
    caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
    supervisor_ = nullptr;
    system_->await_all_actors_done();
    keys_.reset();
    aside_.reset();
    gpus_.reset();
    watchdog_.reset();
    bus_->stop();
    http_.reset();
    // An ended actor may still send down messages over the bus.
    system_.reset();
  }

  result<void> open(const cluster_config& config, const std::string& name) {
    config_ = config;
    name_ = name;
    auto& mine = config_.nodes.at(name);
    counts_ = std::make_shared<metrics>(
      mine.http.empty() ? recording::off : recording::on, name);
    auto built = this_build();
    counts_->build_info(built.version, built.commit, built.libtorch, built.cuda)
      .set(1);
    counts_->start_time_seconds().set(to_seconds(wall_clock()));
    auto folder = open_folder(mine.data);
    if (!folder)
      return folder.failure();
    auto facts = open_store(std::move(*folder));
    if (!facts)
      return facts.failure();
    facts_ = std::move(*facts);
    auto audit = open_lines(audit_directory(mine.data), audit_part_max);
    if (!audit)
      return audit.failure();
    audit_ = std::move(*audit);
    if (auto done = open_events(mine.data); !done)
      return done;
    auto incarnation = count_up(*facts_, "starts", "incarnation");
    if (!incarnation)
      return incarnation.failure();
    auto crashes = count_crashes(mine.data + "/" + crash_file, *facts_);
    if (!crashes)
      return crashes.failure();
    crashes_ = std::move(*crashes);
    report_crashes(crashes_, *health_);
    system_ = std::make_unique<caf::actor_system>(caf_config_);
    if (auto done = open_bus(*incarnation); !done)
      return done;
    if (auto done = open_bulk(*incarnation); !done)
      return done;
    if (!mine.http.empty())
      if (auto done = open_http(mine.http); !done)
        return done;
    return start_actors();
  }

  void drain() override { caf::anon_send(supervisor_, millrace::drain{}); }

  result<void> wait() override {
    std::unique_lock guard{mutex_};
    ended_cv_.wait(guard, [this] { return ended_ || refusal_; });
    return refusal_ && !ended_ ? replaced(*refusal_) : result<void>{};
  }

  std::string describe() const override {
    auto out = "node " + name_ + " of cluster " + config_.cluster + ": peers "
               + bus_->self().address;
    for (auto& [tenant, address] : bus_->clients_addresses())
      out += ", clients "
             + (tenant == default_tenant ? "" : "of " + tenant + " ") + address;
    if (!bus_->operators_address().empty())
      out += ", operators " + bus_->operators_address();
    if (http_)
      out += ", http port " + std::to_string(http_->port());
    return out;
  }

private:
  const node_config& mine() const { return config_.nodes.at(name_); }

  /// Opens a folder of this node's data. A failed write is shown as a trouble
  /// until the next write succeeds.
  result<std::unique_ptr<disk>> open_folder(const std::string& path) {
    auto out = open_directory(path);
    if (!out)
      return out;
    auto refuses = counts_->disk_refuses(path);
    refuses.set(0);
    return watched(
      std::move(*out), [=, state = health_](const result<void>& done) mutable {
        refuses.set(done ? 0 : 1);
        state->set_trouble(path,
                           done ? ""
                                : "disk: " + done.failure().text
                                    + "; orders and events of this node may be"
                                      " lost when it ends");
      });
  }

  result<std::unique_ptr<kept_log>> open_lines(const std::string& path,
                                               size_t part_max) {
    auto folder = open_folder(path);
    if (!folder)
      return folder.failure();
    return open_kept_log(std::move(*folder), part_max);
  }

  /// Opens the event log, which also holds the events of earlier starts.
  result<void> open_events(const std::string& data) {
    auto directory = event_directory(data);
    std::vector<kept_event> earlier;
    if (auto before = read_kept_lines(directory))
      for (auto& line : before->lines)
        earlier.push_back(to_event(line));
    auto kept = open_lines(directory, events_part);
    if (!kept)
      return kept.failure();
    events_ = std::move(*kept);
    // Events may be logged after the node has ended.
    remembered_events().go_on_after(
      std::move(earlier), [to = std::weak_ptr{events_}](const kept_event& x) {
        if (auto log = to.lock())
          log->keep(to_line(x));
      });
    return {};
  }

  /// Checks the host, and lists the addresses of the node.
  std::vector<finding> examine_node() const {
    auto out = examine_host(mine().data);
    for (auto& text : health_->troubles())
      out.push_back(
        {"trouble", verdict::bad, text, "the node continues to work"});
    out.push_back({"addresses", verdict::good, describe(), {}});
    auto& self = bus_->self();
    auto rate = bandwidth{static_cast<double>(self.network)};
    out.push_back(
      {"network",
       verdict::good,
       "host " + self.host + (self.rack.empty() ? "" : " in rack " + self.rack)
         + ", "
         + (self.network > 0
              ? format_bandwidth(rate)
              : "network speed not configured (nodes." + name_ + ".network)"),
       {}});
    auto guarded = !config_.keys.empty();
    out.push_back({"keys", guarded ? verdict::good : verdict::notice,
                   guarded ? "every connection needs one"
                           : "none: every process on this host has full access",
                   guarded ? ""
                           : "if other users have accounts on this host,"
                             " create keys with 'millrace keys'"});
    return out;
  }

  result<void> open_bus(uint64_t incarnation) {
    zmq_bus_settings settings;
    settings.cluster = config_.cluster;
    settings.self.name = name_;
    settings.self.incarnation = incarnation;
    settings.self.address = mine().advertise;
    settings.self.rack = mine().rack;
    settings.self.host = mine().host.empty() ? host_name() : mine().host;
    settings.self.network =
      static_cast<uint64_t>(mine().network.bytes_per_second);
    for (auto x : mine().roles)
      settings.self.roles.emplace_back(to_string(x));
    settings.peers = mine().peers;
    settings.clients = clients_of(mine());
    settings.operators = mine().operators;
    for (auto& address : config_.seeds)
      settings.seeds.push_back(
        {address, node_at(config_, address).value_or("")});
    auto keys = keys_of(config_, name_);
    if (!keys)
      return keys.failure();
    settings.keys = std::move(*keys);
    if (settings.keys) // keys must not be in a core file
      ::prctl(PR_SET_DUMPABLE, 0);
    if (!clients_of(mine()).empty()) { // nor may requests
      rlimit none{};
      ::setrlimit(RLIMIT_CORE, &none);
    }
    settings.on_notable = [this](auto kind, auto& who, auto& what) {
      auto line =
        wall_time() + " "
        + (who.name.empty()
             ? std::string{"unknown peer"}
             : who.name + " (" + std::string{to_string(who.role)} + ")")
        + " " + what;
      if (kind == zeromq::authenticator::notable::order)
        audit_->keep(std::move(line));
      else
        audit_->sample(std::move(line));
    };
    // A request somewhat above the limit still gets an error reply, and a
    // client that keeps to the message limit of PROTOCOL.md is never
    // disconnected because of size.
    settings.longest_request =
      std::max<size_t>(2 * config_.gateway.max_client_bytes.value,
                       wire_limits::header_bytes + codec_limits::body_bytes);
    settings.max_unread = {config_.gateway.max_client_unread_bytes.value,
                           config_.gateway.max_unread_bytes.value};
    settings.link = {config_.link.beat, config_.link.timeout,
                     config_.link.max_nodes};
    settings.on_hello_rejected = [this](const hello_rejected& x) {
      std::lock_guard guard{mutex_};
      refusal_ = x;
      ended_cv_.notify_all();
    };
    auto x = zmq_bus::open(*system_, std::move(settings), *counts_);
    if (!x)
      return std::move(x.failure()).within("node " + name_);
    bus_ = std::move(*x);
    return {};
  }

  /// Opens the port where workers fetch bundles from each other.
  result<void> open_bulk(uint64_t incarnation) {
    if (std::ranges::count(mine().roles, node_role::worker) == 0)
      return {};
    auto keys = keys_of(config_, name_);
    if (!keys)
      return keys.failure();
    auto x =
      open_bulk_port(config_, name_, incarnation, std::move(*keys), *counts_);
    if (!x)
      return std::move(x.failure()).within("node " + name_);
    bulk_ = std::move(*x);
    return {};
  }

  result<void> open_http(const std::string& address) {
    auto x = http_server::listen(
      address,
      {{"/metrics",
        [this] {
          return http_answer{200, "text/plain; version=0.0.4; charset=utf-8",
                             counts_->text()};
        }},
       {"/livez",
        [this] {
          auto stuck = bus_->since_turn() >= stuck_after;
          return http_answer{stuck ? 503u : 200u, "text/plain",
                             stuck ? "stuck\n" : "alive\n"};
        }},
       {"/readyz", [this] {
          auto [state, reason] = health_->get();
          auto text = std::string{to_string(state)}
                      + (reason.empty() ? "" : ": " + reason) + "\n";
          for (auto& trouble : health_->troubles())
            text += "trouble: " + trouble + "\n";
          return http_answer{state == node_condition::ready ? 200u : 503u,
                             "text/plain", text};
        }}});
    if (!x)
      return x.failure();
    http_ = std::move(*x);
    return {};
  }

  result<void> start_actors() {
    node_environment environment;
    environment.net = bus_.get();
    environment.host = &bus_->host();
    environment.counts = counts_;
    environment.state = health_;
    environment.facts = facts_;
    environment.memory = memory_shared_on(bus_->self().host);
    environment.read_bundles = [directory = mine().models,
                                memory = environment.memory] {
      return std::shared_ptr<bundle_reader>{read_directory(directory, memory)};
    };
    environment.bulk = bulk_;
    environment.draw_token = [] { return random_secret(); };
    auto make = make_devices_of(config_, crashes_);
    if (!make)
      return make.failure();
    environment.make_device = std::move(*make);
    if (config_.known_profiles && !config_.profiles.empty()) {
      auto known = read_book(config_.profiles);
      if (!known)
        return known.failure();
      environment.known_profiles =
        std::make_shared<const profile_book>(std::move(*known));
    }
    environment.probe = read_host;
    environment.children = read_children;
    environment.gpus = [this](auto tell) {
      std::lock_guard guard{mutex_};
      if (!gpus_)
        gpus_.emplace("gpus");
      gpus_->post([tell = std::move(tell)] { tell(read_gpus()); });
    };
    environment.aside = [this](std::function<void()> job) {
      std::lock_guard guard{mutex_};
      if (!aside_)
        aside_.emplace("aside", thread_priority::least);
      aside_->post(std::move(job));
    };
    environment.examine = [this] { return examine_node(); };
    environment.wall_clock = wall_clock;
    environment.ended = [this] {
      std::lock_guard guard{mutex_};
      ended_ = true;
      ended_cv_.notify_all();
    };
    log_event(log_level::info, "node", "started", {{"node", name_}});
    supervisor_ =
      system_->spawn(millrace::supervisor,
                     compose_node(config_, name_, std::move(environment)));
    bus_->publish("supervisor",
                  caf::actor_cast<caf::strong_actor_ptr>(supervisor_));
    bus_->start();
    if (auto period = watchdog_period(); period > 0ms) {
      watchdog_.emplace("watchdog");
      watchdog_->repeat(period, [this] {
        if (bus_->since_turn() < stuck_after)
          notify_service("WATCHDOG=1\n");
      });
    }
    if (!config_.keys.empty())
      keys_.emplace(allowed_path(config_.keys),
                    [this](auto x) { on_list_of_keys(std::move(x)); });
    return {};
  }

  void on_list_of_keys(result<allowed_keys> x) {
    health_->set_trouble("keys",
                         x ? ""
                           : "keys: " + x.failure().text
                               + "; only clients that were allowed before"
                                 " can connect");
    if (!x)
      return;
    if (bulk_)
      bulk_->allow(*x);
    bus_->allow(std::move(*x));
  }

  /// Ends a start that the cluster rejects, so that the next start has a higher
  /// number.
  result<void> replaced(const hello_rejected& x) {
    auto text = "node " + name_ + ": the cluster has seen start "
                + std::to_string(x.known) + " of this node, this is start "
                + std::to_string(x.incarnation);
    if (x.alive)
      return error{ec::conflict,
                   text
                     + ", and that one is alive: another process runs under"
                       " this name",
                   {}};
    if (auto done = count_up(*facts_, "starts", "incarnation", x.known); !done)
      return done.failure();
    return error{ec::conflict,
                 text + ": its data directory '" + mine().data
                   + "' was replaced or set back; its count of starts has been"
                     " corrected, start the node again",
                 {}};
  }

  cluster_config config_;
  std::string name_;
  std::shared_ptr<metrics> counts_;
  std::shared_ptr<health> health_ = std::make_shared<health>(tell_service);
  std::shared_ptr<store> facts_;
  crash_counts crashes_; ///< by model, at the begin of this start
  std::unique_ptr<kept_log> audit_;
  std::shared_ptr<kept_log> events_;
  system_config caf_config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<zmq_bus> bus_;
  std::shared_ptr<zmq_bulk> bulk_; ///< null: this node is not a worker
  std::unique_ptr<http_server> http_;
  std::optional<key_watch> keys_;
  std::optional<worker_thread> aside_; ///< created with the first job
  std::optional<worker_thread> gpus_;  ///< created with the first job
  std::optional<worker_thread> watchdog_;
  supervisor_actor supervisor_;
  std::mutex mutex_;
  std::condition_variable ended_cv_;
  bool ended_ = false;
  std::optional<hello_rejected> refusal_;
};

} // namespace

result<std::unique_ptr<node>> node::start(const cluster_config& config,
                                          const std::string& name) {
  auto out = std::make_unique<real_node>();
  if (auto done = out->open(config, name); !done)
    return done.failure();
  return std::unique_ptr<node>{std::move(out)};
}

result<void> node::check_keys(const cluster_config& config,
                              const std::string& name) {
  auto keys = keys_of(config, name);
  return keys ? result<void>{} : keys.failure();
}

} // namespace millrace
