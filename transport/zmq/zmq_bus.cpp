// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/zmq_bus.hpp"

#include <atomic>
#include <deque>
#include <set>
#include <thread>

#include "runtime/log.hpp"
#include "runtime/random.hpp"
#include "runtime/text.hpp"
#include "runtime/worker_thread.hpp"
#include "transport/access.hpp"
#include "transport/membership.hpp"
#include "transport/message_types.hpp"
#include "transport/messages/all.hpp"
#include "transport/zmq/client_endpoint.hpp"
#include "transport/zmq/job_queue.hpp"
#include "transport/zmq/links.hpp"
#include "transport/zmq/operator_endpoint.hpp"
#include "transport/zmq/socket.hpp"
#include "transport/zmq/wake_event.hpp"

namespace millrace {

namespace {

using namespace zeromq;

/// Actor runs per turn before the sockets are checked.
constexpr size_t runs_per_turn = 1024;
/// Three per link; also the file limit of a process that raises its limit.
constexpr int max_sockets = 65'535;
/// Bytes of an operator's order, which has no tensors.
constexpr size_t longest_order = 2 * codec_limits::body_bytes;
/// A restarted controller waits one second for nodes to reconnect.
constexpr int reconnect_max_ms = 250;

class bus_thread : public zmq_bus {
public:
  bus_thread(caf::actor_system& system, zmq_bus_settings settings,
             metrics& counts)
    : zmq_bus(system, settings.self.name),
      system_(system),
      settings_(std::move(settings)),
      reactor_(system, [this] { wake_.raise(); }),
      traffic_(counts),
      peers_up_(counts.peers()),
      authenticator_(context_, std::move(settings_.keys), traffic_,
                     settings_.on_notable) {}

  ~bus_thread() override { stop(); }

  result<void> bind() {
    socket_options options;
    options.keep_for(settings_.link.timeout);
    options.reconnect_max_ms = reconnect_max_ms;
    auto peers = bind_router(context_, settings_.peers, options,
                             authenticator_.secured(from_whom_));
    if (!peers)
      return peers.failure();
    if (settings_.self.address.empty())
      settings_.self.address = bound_address(*peers);
    from_peers_.emplace(context_, std::move(*peers));
    for (auto& [tenant, address] : settings_.clients) {
      auto whose = authenticator::clients(tenant);
      auto x = bind_router(
        context_, address,
        client_endpoint::options_of(options, settings_.longest_request),
        authenticator_.secured(whose));
      if (!x)
        return x.failure();
      address = bound_address(*x);
      clients_.emplace_back(static_cast<uint32_t>(clients_.size()),
                            std::move(whose), *this, reactor_, context_,
                            std::move(*x), settings_.max_unread, unread_,
                            authenticator_, traffic_);
    }
    if (!settings_.operators.empty()) {
      auto x = bind_router(context_, settings_.operators,
                           options.for_strangers(longest_order),
                           authenticator_.secured(authenticator::operators()));
      if (!x)
        return x.failure();
      settings_.operators = bound_address(*x);
      operators_.emplace(
        operator_endpoint::surroundings{
          system_, board_, reactor_, authenticator_, traffic_,
          settings_.self.name,
          [this](std::function<void()> f) { post(std::move(f)); }},
        context_, std::move(*x));
    }
    membership_.set_self(settings_.self);
    auto start = entropy();
    links_ = std::make_unique<link_set>(
      context_, origin{settings_.self.name, settings_.self.incarnation, start},
      options, authenticator_.own());
    table_ =
      std::make_unique<peer_table>(settings_.cluster, settings_.self,
                                   settings_.link, settings_.seeds, start);
    return {};
  }

  void start() override {
    thread_ = std::thread{[this] {
      name_this_thread("bus");
      reactor_.adopt_this_thread();
      loop();
    }};
  }

  void stop() override {
    if (!thread_.joinable())
      return;
    stopping_ = true;
    wake_.raise();
    thread_.join();
    reactor_.close();
  }

  reactor& host() override { return reactor_; }
  nanoseconds since_turn() const override { return now() - turned_.load(); }
  const std::vector<tenant_address>& clients_addresses() const override {
    return settings_.clients;
  }
  std::string operators_address() const override { return settings_.operators; }

  // -- bus --------------------------------------------------------------------

  const member& self() const override { return settings_.self; }

  void subscribe(caf::strong_actor_ptr actor, std::string role) override {
    membership_.subscribe(actor, std::move(role));
  }

  member_list members() const override { return membership_.list(now()); }

  void serve_clients(caf::strong_actor_ptr actor) override {
    post([this, actor] {
      for (auto& endpoint : clients_)
        endpoint.serve(actor);
    });
  }

  void allow(allowed_keys keys) override {
    post([this, x = std::move(keys)] { allow_now(x); });
  }

  void answer(const session& to, client_tag tag, infer_reply reply) override {
    answer_with(to, tag, std::move(reply));
  }
  void answer(const session& to, client_tag tag,
              model_list_reply reply) override {
    answer_with(to, tag, std::move(reply));
  }

private:
  timestamp now() const { return system_.clock().now(); }

  /// Whether this is the bus thread and no job waits. An actor on the bus
  /// thread may have run on another thread just before: its earlier messages,
  /// posted as jobs, must be sent first.
  bool is_next() const { return reactor_.is_on_this_thread() && jobs_.empty(); }

  /// Runs f on the bus thread: at once if is_next().
  template <class F>
  void post(F f) {
    if (is_next())
      return f();
    jobs_.push(std::move(f));
    wake_.raise();
  }

  template <class T>
  void answer_with(const session& to, client_tag tag, T x) {
    auto& endpoint = clients_.at(to.endpoint);
    if (is_next())
      endpoint.answer(to, tag, x);
    else
      post([&endpoint, to, tag, x = std::move(x)] {
        endpoint.answer(to, tag, x);
      });
  }

  void dropped(std::string_view why) { traffic_.dropped(why); }

  // -- carrier ----------------------------------------------------------------

  bool carry(const std::string& node, uint64_t incarnation,
             wire_message message) override {
    if (is_next())
      return carry_now(node, incarnation, message);
    post([this, node, incarnation, x = std::move(message)] {
      if (!carry_now(node, incarnation, x))
        dropped("no_link");
    });
    return true;
  }

  uint64_t incarnation_of(std::string_view node) const override {
    return membership_.incarnation_of(node);
  }

  bool carry_now(const std::string& node, uint64_t incarnation,
                 const wire_message& x) {
    auto* address = table_->address_of(node, incarnation);
    if (address == nullptr || !links_->send(*address, x, now()))
      return false;
    traffic_.sent(1, x.bytes());
    return true;
  }

  // -- the thread -------------------------------------------------------------

  void loop() {
    carry_out(table_->start());
    auto next_tick = now();
    while (!stopping_) {
      if (now() >= next_tick) {
        turned_ = now();
        next_tick = now() + settings_.link.beat;
        carry_out(table_->on_tick(now()));
      }
      reactor_.run(runs_per_turn);
      jobs_.run();
      flush();
      wait(std::chrono::ceil<milliseconds>(next_tick - now()));
      take_in();
    }
    leave();
  }

  void leave() {
    reactor_.run(runs_per_turn);
    jobs_.run();
    flush();
    auto x = make_wire_message(goodbye{}, now(), nullptr);
    for (auto& m : table_->linked())
      carry_now(m.name, m.incarnation, x);
    links_.reset();
    from_peers_.reset();
    for (auto& endpoint : clients_)
      endpoint.close();
    if (operators_)
      operators_->close();
  }

  void flush() {
    for (auto& endpoint : clients_)
      endpoint.flush();
  }

  void wait(milliseconds longest) {
    auto woken = false;
    list_.clear();
    list_.add(wake_.fd(), woken);
    from_peers_->add_to(list_);
    authenticator_.add_to(list_);
    for (auto& endpoint : clients_)
      endpoint.add_to(list_);
    if (operators_)
      operators_->add_to(list_);
    links_->add_to(list_);
    wake_.about_to_sleep();
    // A job posted before about_to_sleep() raised no event.
    if (list_.any() || !jobs_.empty() || reactor_.has_work())
      longest = milliseconds{0};
    list_.wait(std::max(longest, milliseconds{0}));
    wake_.awake();
  }

  void take_in() {
    authenticator_.answer(now());
    // Messages first: a goodbye must not be lost to the end of its connection.
    from_peers_->take(traffic_, now(),
                      [this](frame_list& frames) { take_from_peer(frames); });
    links_->take_events(
      [this](const std::string& address) {
        carry_out(table_->on_connected(address, now()));
      },
      [this](const std::string& address) {
        carry_out(table_->on_disconnected(address, now()));
      },
      [this](const std::string& address) {
        links_->drop(address);
        table_->on_connect_failed(address, now());
        log_event(log_level::warning, "bus", "not_let_in",
                  {{"address", address}});
      });
    for (auto& endpoint : clients_)
      endpoint.take_in(now());
    if (operators_)
      operators_->take_in();
  }

  // -- peers ------------------------------------------------------------------

  /// A link that has lost a message is ended: its users start again.
  void take_from_peer(frame_list& frames) {
    if (traffic_.take_in([&] { on_peer_frames(frames); }))
      return;
    traffic_.take_in([&] {
      if (auto from = parse_routing_id(frames[0].to_string_view()))
        carry_out(table_->expel(from->node, "no memory left", now()));
    });
  }

  void on_peer_frames(frame_list& frames) {
    auto* who = authenticator_.speaker(from_whom_, frames[1], now());
    if (who == nullptr)
      return;
    auto from = parse_routing_id(frames[0].to_string_view());
    if (!from)
      return dropped("bad_routing_id");
    if (authenticator_.has_keys() && from->node != who->name)
      return authenticator_.offence(*who, "spoke as " + shown(from->node),
                                    now());
    auto x = to_wire(frames, 1, now());
    traffic_.received(1, x ? x->bytes() : 0);
    if (!x)
      return drop_unreadable(from->node, x.failure());
    if (find_message_type(x->head.t) == nullptr)
      return dropped("undecodable");
    if (!may_say(who->role, x->head.t))
      return refuse_peer(*who, *from, *x);
    decode_context ctx{now(), nullptr, {}, 0};
    if (x->head.t == hello::record_name()) {
      auto h = decode<hello>(x->body.view(), ctx);
      h ? on_hello(*who, *from, *h) : drop_unreadable(from->node, h.failure());
    } else if (x->head.t == heartbeat::record_name()) {
      if (auto b = decode<heartbeat>(x->body.view(), ctx))
        carry_out(table_->on_heartbeat(*from, *b, now()));
    } else if (x->head.t == hello_rejected::record_name()) {
      if (auto r = decode<hello_rejected>(x->body.view(), ctx))
        carry_out(table_->on_hello_rejected(*r));
    } else if (x->head.t == goodbye::record_name()) {
      carry_out(table_->on_goodbye(*from, now()));
    } else {
      on_peer_message(*from, *x);
    }
  }

  void drop_unreadable(const std::string& node, const error& why) {
    dropped("undecodable");
    if (unreadable_.size() < 64 && unreadable_.insert(node).second)
      log_event(log_level::warning, "bus", "unreadable_frame",
                {{"node", node}, {"error", why.text}});
  }

  void on_hello(const identity& who, const origin& from, const hello& x) {
    if (auto possible = check_hello(x, from); !possible)
      return drop_unreadable(from.node, possible.failure());
    if (x.self.has_role("controller") && who.role != role::controller)
      return authenticator_.offence(who, "claimed to be a controller", now());
    carry_out(table_->on_hello(x, now()));
  }

  void refuse_peer(const identity& who, const origin& from,
                   const wire_message& x) {
    authenticator_.offence(who, "said " + x.head.t, now());
    if (table_->accepts(from))
      board_.refuse(*table_->find(from.node), x,
                    {ec::forbidden,
                     "a " + std::string{to_string(who.role)} + " may not say "
                       + shown(x.head.t),
                     {}},
                    &reactor_);
  }

  /// After a change of the key list: ends links with nodes that are not on it.
  void allow_now(const allowed_keys& x) {
    authenticator_.replace(x);
    for (auto& [address, node, key] : links_->servers()) {
      auto* now_has = authenticator_.key_of(node);
      if (now_has == nullptr || *now_has != key)
        carry_out(table_->expel(node, "its key is no longer allowed", now()));
    }
  }

  void on_peer_message(const origin& sender, const wire_message& x) {
    if (!table_->accepts(sender))
      return dropped("link_given_up");
    if (x.head.inc != settings_.self.incarnation)
      return dropped("for_an_earlier_start");
    auto from = *table_->find(sender.node);
    // A link may carry messages before it is up.
    membership_.heard(from);
    if (auto done = board_.deliver(from, x, &reactor_); !done) {
      dropped("undecodable");
      log_event(log_level::warning, "bus", "undecodable",
                {{"from", sender.node},
                 {"type", shown(x.head.t)},
                 {"error", to_string(done.failure())}});
    }
  }

  void carry_out(const peer_actions& todo) {
    for (auto& x : todo)
      std::visit([this](auto& y) { act(y); }, x);
  }

  void act(const connect_to& x) {
    auto* key = authenticator_.key_of(x.node);
    auto done = key == nullptr
                  ? error{ec::forbidden, "no key of node " + shown(x.node), {}}
                  : links_->connect(x.address, x.node, *key);
    if (done)
      return;
    table_->on_connect_failed(x.address, now());
    log_event(log_level::warning, "bus", "cannot_connect",
              {{"address", x.address}, {"error", to_string(done.failure())}});
  }
  void act(const drop_connection& x) { links_->drop(x.address); }
  void act(const send_hello& x) { send_link(x.address, x.what); }
  void act(const send_heartbeat& x) { send_link(x.address, x.what); }
  void act(const send_rejection& x) { send_link(x.address, x.what); }

  template <class T>
  void send_link(const std::string& address, const T& what) {
    links_->send(address, make_wire_message(what, now(), nullptr), now());
  }

  void act(const report_stranger& x) {
    dropped("refused_hello");
    log_event(log_level::warning, "bus", "refused_hello",
              {{"node", x.peer.name},
               {"incarnation", x.peer.incarnation},
               {"address", x.peer.address},
               {"reason", x.reason}});
  }

  void act(const report_rejected& x) {
    log_event(log_level::warning, "bus", "was_refused",
              {{"reason", x.what.why}, {"known", x.what.known}});
    if (x.what.known != 0 && settings_.on_hello_rejected)
      settings_.on_hello_rejected(x.what);
  }

  void act(const report_up& x) {
    log_event(log_level::info, "bus", "peer_up",
              {{"node", x.peer.name},
               {"incarnation", x.peer.incarnation},
               {"address", x.peer.address}});
    peers_up_.set(static_cast<double>(table_->up_count()));
    membership_.up(x.peer);
  }

  void act(const report_down& x) {
    log_event(log_level::warning, "bus", "peer_down",
              {{"node", x.peer.name}, {"reason", x.reason}});
    peers_up_.set(static_cast<double>(table_->up_count()));
    peer_down news{x.peer, x.reason, x.left, x.returns};
    membership_.down(news, now());
    board_.peer_lost(x.peer, x.reason, &reactor_);
    membership_.tell_down(news);
  }

  caf::actor_system& system_;
  zmq_bus_settings settings_;
  wake_event wake_;
  reactor reactor_;
  traffic traffic_;
  gauge peers_up_;

  zmq::context_t context_{1, max_sockets};
  std::optional<watched_router> from_peers_;
  authenticator authenticator_;
  std::set<std::string> unreadable_; ///< logged once
  const authenticator::endpoint from_whom_ = authenticator::peers();
  const std::shared_ptr<std::atomic<size_t>> unread_ =
    std::make_shared<std::atomic<size_t>>(0); ///< bytes lent to all clients
  std::deque<client_endpoint> clients_;       ///< by number
  std::optional<operator_endpoint> operators_;
  std::unique_ptr<link_set> links_;
  std::unique_ptr<peer_table> table_;
  wait_list list_;
  membership membership_{&reactor_};

  job_queue jobs_;
  std::atomic<timestamp> turned_{now()};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace

result<std::unique_ptr<zmq_bus>> zmq_bus::open(caf::actor_system& system,
                                               zmq_bus_settings settings,
                                               metrics& counts) {
  // libzmq draws routing ids of unnamed peers from rand().
  std::srand(static_cast<unsigned>(entropy()));
  auto out = std::make_unique<bus_thread>(system, std::move(settings), counts);
  if (auto bound = out->bind(); !bound)
    return bound.failure();
  return std::unique_ptr<zmq_bus>{std::move(out)};
}

} // namespace millrace
