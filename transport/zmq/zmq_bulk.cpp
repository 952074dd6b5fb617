// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/zmq_bulk.hpp"

#include <atomic>
#include <thread>

#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "runtime/worker_thread.hpp"
#include "transport/access.hpp"
#include "transport/zmq/authenticator.hpp"
#include "transport/zmq/job_queue.hpp"
#include "transport/zmq/links.hpp"
#include "transport/zmq/socket.hpp"
#include "transport/zmq/socket_events.hpp"
#include "transport/zmq/traffic.hpp"
#include "transport/zmq/wake_event.hpp"
#include "transport/zmq/watched_router.hpp"

namespace millrace {

namespace {

using namespace zeromq;

/// Bytes of a request, which is short.
constexpr size_t longest_question = 16u << 10;

/// Longest wait without work.
constexpr milliseconds look_again{1000};

class bulk_threads : public zmq_bulk, private bulk_carrier {
public:
  bulk_threads(zmq_bulk_settings settings, metrics& counts)
    : settings_(std::move(settings)),
      traffic_(counts),
      given_(counts.model_bytes("sent")),
      got_(counts.model_bytes("received")),
      authenticator_(
        context_, std::move(settings_.keys), traffic_,
        [](auto, auto&, auto&) { /* is counted, and in the log */ }),
      engine_(*this, settings_.limits),
      stores_(std::move(settings_.stores), engine_) {}

  ~bulk_threads() override {
    stopping_ = true;
    mailbox_->wake.raise();
    if (thread_.joinable())
      thread_.join();
    sources_.clear();
    asked_.reset();
  }

  result<void> start() {
    auto x = bind_router(
      context_, settings_.endpoint, options_.for_strangers(longest_question),
      is_secured() ? authenticator_.secured(from_whom_) : std::nullopt);
    if (!x)
      return x.failure();
    address_ = bound_address(*x);
    if (!settings_.advertise.empty())
      address_ = with_port_of(settings_.advertise, address_);
    asked_.emplace(context_, std::move(*x));
    thread_ = std::thread{[this] {
      name_this_thread("bulk");
      loop();
    }};
    return {};
  }

  // -- bulk_port --------------------------------------------------------------

  std::string address() const override { return address_; }

  void offer(const std::string& content, const std::string& token,
             std::shared_ptr<bulk_content> body) override {
    post([this, content, token, x = std::move(body)] {
      engine_.offer(content, token, x, now());
    });
  }
  void withdraw(const std::string& content) override {
    post([this, content] { engine_.withdraw(content); });
  }
  void pull(bulk_order order) override {
    post([this, x = std::move(order)] { engine_.pull(x); });
  }
  void pull_from(const std::string& content,
                 std::vector<bulk_source> sources) override {
    post([this, content, sources = std::move(sources)] {
      engine_.pull_from(content, sources);
    });
  }
  void stop(const std::string& content) override {
    post([this, content] { engine_.stop(content); });
  }
  void clear() override {
    post([this] { engine_.clear(); });
  }
  void allow(allowed_keys keys) override {
    post([this, x = std::move(keys)] { authenticator_.replace(x); });
  }
  void forget(const std::string& node) override {
    post([this, node] {
      if (auto link = links_.extract(node); !link.empty())
        engine_.on_link_lost(link.mapped());
      if (sources_.erase(node) > 0)
        engine_.on_source_lost(
          node, {ec::unavailable, node + ": is no longer a member", {}});
    });
  }

private:
  /// Jobs for the thread. The mailbox may outlive the thread.
  struct mailbox {
    job_queue jobs;
    wake_event wake;
  };

  /// A connection to a source.
  struct source {
    zmq::socket_t dealer;
    socket_events events{}; ///< destroyed before the socket
    bool connected = false;
    bool spoke = true; ///< flag: see wait_list
    bool happened = true;
    std::vector<wire_message> waiting{}; ///< requests until it is connected
  };

  bool is_secured() const {
    return authenticator_.has_keys() && settings_.encrypt;
  }

  timestamp now() const { return steady_now(); }

  /// An address with the port of another.
  static std::string with_port_of(const std::string& x, const std::string& y) {
    return x.substr(0, x.rfind(':')) + y.substr(y.rfind(':'));
  }

  // -- bulk_carrier -----------------------------------------------------------

  poster to_thread() override {
    return [to = mailbox_](std::function<void()> job) {
      to->jobs.push(std::move(job));
      to->wake.raise();
    };
  }

  void post(std::function<void()> job) { to_thread()(std::move(job)); }

  void ask(const bulk_source& whom, const bulk_ask& request) override {
    if (stores_.has(whom.node))
      return stores_.ask(
        whom, request, to_thread(), [] { return steady_now(); },
        [this](auto& bytes) { got_.add(static_cast<double>(bytes.size())); });
    auto i = sources_.find(whom.node);
    if (i == sources_.end()) {
      if (auto done = connect(whom); !done)
        return lose_soon(whom.node, done.failure());
      i = sources_.find(whom.node);
    }
    auto message = make_wire_message(request, now(), nullptr);
    if (!i->second.connected)
      return i->second.waiting.push_back(std::move(message));
    i->second.spoke = true;
    if (!send(i->second.dealer, {}, message, now()))
      lose_soon(whom.node, {ec::unavailable, whom.node + " takes nothing", {}});
  }

  size_t window_of(const std::string& node) const override {
    return stores_.window_of(node);
  }

  void leave(const std::string& node) override { sources_.erase(node); }

  void give(const std::string& link, const bulk_chunk& what,
            shared_bytes content) override {
    // The last holder of the share reports that the chunk was sent: ZeroMQ.
    auto* at = content.data();
    auto view = content.view();
    std::shared_ptr<const void> owner{
      at,
      [this, link, content = std::move(content), post = to_thread()](
        const void*) { post([this, link] { engine_.on_left(link, now()); }); }};
    auto message = make_wire_message(what, now(), nullptr);
    message.attachments.push_back({view, std::move(owner)});
    given_.add(static_cast<double>(view.size()));
    send_to(link, message);
  }

  void give_head(const std::string& link, const bulk_head& what,
                 std::vector<shared_bytes> pieces) override {
    auto message = make_wire_message(what, now(), nullptr);
    message.attachments = std::move(pieces);
    send_to(link, message);
  }

  void refuse(const std::string& link, const bulk_refusal& answer) override {
    send_to(link, make_wire_message(answer, now(), nullptr));
  }

  void send_to(const std::string& link, const wire_message& x) {
    if (send(asked_->sending(), link, x, now()))
      traffic_.sent(1, x.bytes());
    else
      post([this, link] { engine_.on_link_lost(link); });
  }

  /// Posted, since the engine may be the caller.
  void lose_soon(const std::string& node, error why) {
    post([this, node, why = std::move(why)] {
      sources_.erase(node);
      engine_.on_source_lost(node, why);
    });
  }

  result<void> connect(const bulk_source& whom) try {
    auto* key = authenticator_.key_of(whom.node);
    if (key == nullptr)
      return error{ec::forbidden, "no key of node " + shown(whom.node), {}};
    auto id = make_routing_id(settings_.self, ++connections_);
    source fresh{.dealer = make_dealer(context_, id, options_)};
    if (auto own = authenticator_.own(); own && is_secured())
      connect_with(fresh.dealer, *own, *key);
    fresh.events = {context_, fresh.dealer,
                    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED
                      | ZMQ_EVENT_CONNECT_RETRIED | failed_handshakes
                      | broken_handshake};
    if (auto done = zeromq::connect(fresh.dealer, whom.address); !done)
      return done;
    sources_.emplace(whom.node, std::move(fresh));
    return {};
  } catch (const zmq::error_t& e) {
    return error{ec::unavailable,
                 "no socket to connect to " + whom.address + ": " + e.what(),
                 {}};
  }

  // -- the thread -------------------------------------------------------------

  void loop() {
    while (!stopping_) {
      mailbox_->jobs.run();
      engine_.on_tick(now());
      wait();
      authenticator_.answer(now());
      asked_->take(traffic_, now(), [this](frame_list& frames) {
        traffic_.take_in([&] { on_question(frames); });
      });
      take_from_sources();
    }
  }

  void wait() {
    auto due = std::min(engine_.next_due(), now() + look_again);
    auto longest = std::chrono::ceil<milliseconds>(due - now());
    auto woken = false;
    list_.clear();
    list_.add(mailbox_->wake.fd(), woken);
    asked_->add_to(list_);
    authenticator_.add_to(list_);
    for (auto& [node, x] : sources_) {
      list_.add(x.dealer, x.spoke);
      list_.add(x.events.socket(), x.happened);
    }
    mailbox_->wake.about_to_sleep();
    if (list_.any() || !mailbox_->jobs.empty())
      longest = milliseconds{0};
    list_.wait(std::max(longest, milliseconds{0}));
    mailbox_->wake.awake();
  }

  void on_question(frame_list& frames) {
    auto link = std::string{frames[0].to_string_view()};
    auto from = parse_routing_id(link);
    if (!from)
      return traffic_.dropped("bad_routing_id");
    if (is_secured()) {
      auto* who = authenticator_.speaker(from_whom_, frames[1], now());
      if (who == nullptr)
        return;
      if (from->node != who->name)
        return authenticator_.offence(*who, "spoke as " + shown(from->node),
                                      now());
    }
    auto x = to_wire(frames, 1, now());
    traffic_.received(1, x ? x->bytes() : 0);
    if (!x || x->head.t != bulk_ask::record_name())
      return traffic_.dropped("undecodable");
    decode_context ctx{now(), nullptr, {}, 0};
    auto question = decode<bulk_ask>(x->body.view(), ctx);
    if (!question)
      return traffic_.dropped("undecodable");
    auto& known = links_[from->node];
    if (known != link && !known.empty()) // one connection per node
      engine_.on_link_lost(known);
    known = link;
    engine_.on_ask(link, *question, now());
  }

  void take_from_sources() {
    std::vector<std::string> names; // the engine may remove some
    for (auto& [node, x] : sources_)
      names.push_back(node);
    for (auto& node : names) {
      take_answers(node);
      take_events(node);
    }
  }

  /// Receives answers, a limited number per call: each chunk causes a new
  /// request, and a fast source must not starve the others.
  void take_answers(const std::string& node) {
    constexpr auto at_a_time = 8;
    frame_list frames;
    for (auto n = 0; n < at_a_time; ++n) {
      auto i = sources_.find(node);
      if (i == sources_.end() || !i->second.spoke)
        return;
      if (!receive(i->second.dealer, frames)) {
        i->second.spoke = false;
        return;
      }
      traffic_.take_in([&] { on_answer(node, frames); });
    }
  }

  void on_answer(const std::string& node, frame_list& frames) {
    auto x = to_wire(frames, 0, now());
    if (!x)
      return traffic_.dropped("undecodable");
    traffic_.received(1, x->bytes());
    decode_context ctx{now(), nullptr, {}, 0};
    auto read = [&]<class T>(T*, auto take) {
      if (x->head.t != T::record_name())
        return;
      if (auto y = decode<T>(x->body.view(), ctx))
        take(*y);
      else
        traffic_.dropped("undecodable");
    };
    read(static_cast<bulk_chunk*>(nullptr), [&](auto& y) {
      if (x->attachments.size() != 1)
        return;
      got_.add(static_cast<double>(x->attachments.front().view().size()));
      engine_.on_chunk(node, y, x->attachments.front(), now());
    });
    read(static_cast<bulk_head*>(nullptr),
         [&](auto& y) { engine_.on_head(node, y, x->attachments); });
    read(static_cast<bulk_refusal*>(nullptr),
         [&](auto& y) { engine_.on_refusal(node, y); });
  }

  void take_events(const std::string& node) {
    for (;;) {
      auto i = sources_.find(node);
      if (i == sources_.end() || !i->second.happened)
        return;
      auto event = i->second.events.next();
      if (!event) {
        i->second.happened = false;
        return;
      }
      if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        on_connected(i->second);
        continue;
      }
      sources_.erase(i);
      engine_.on_source_lost(
        node, {ec::unavailable, node + ": the connection was lost", {}});
    }
  }

  void on_connected(source& x) {
    x.connected = true;
    x.spoke = true;
    for (auto& message : std::exchange(x.waiting, {}))
      send(x.dealer, {}, message, now());
  }

  zmq_bulk_settings settings_;
  std::string address_;
  const std::shared_ptr<mailbox> mailbox_ = std::make_shared<mailbox>();
  traffic traffic_;
  counter given_, got_; ///< bytes of chunks
  socket_options options_;
  zmq::context_t context_{1};
  authenticator authenticator_;
  const authenticator::endpoint from_whom_ = authenticator::peers();
  std::optional<watched_router> asked_;
  /// Latest requesting link of each node.
  std::map<std::string, std::string> links_;
  std::map<std::string, source> sources_; ///< by node
  uint64_t connections_ = 0;
  bulk_engine engine_;
  store_sources stores_;
  wait_list list_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace

result<std::unique_ptr<zmq_bulk>> zmq_bulk::open(zmq_bulk_settings settings,
                                                 metrics& counts) {
  auto out = std::make_unique<bulk_threads>(std::move(settings), counts);
  if (auto done = out->start(); !done)
    return done.failure();
  return std::unique_ptr<zmq_bulk>{std::move(out)};
}

} // namespace millrace
