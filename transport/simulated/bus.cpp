// SPDX-License-Identifier: Apache-2.0
#include "transport/simulated/bus.hpp"

#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "transport/access.hpp"
#include "transport/messages/all.hpp"
#include "transport/simulated/links.hpp"

namespace millrace {

namespace {

/// Messages queued for one node at most, as on a real connection.
constexpr size_t most_waiting = 1000;

/// Approximate bytes of a client's header.
constexpr size_t client_header = 96;

} // namespace

simulated_bus::simulated_bus(virtual_process& process, simulated_links& links,
                             member self, host_number host,
                             simulated_outside& outside)
  : switchboard_bus(process.system(), self.name),
    process_(process),
    links_(links),
    self_(std::move(self)),
    host_(host),
    outside_(outside),
    operators_(process.system(), [this](auto&, auto mid, auto& content) {
      if (!vanished_)
        outside_.on_operator_answer(self_.name,
                                    mid.request_id().integer_value(),
                                    caf::message::copy(content));
    }) {
  auto& net = links_.network();
  from_clients_ = net.open(net.clients(), host_);
  to_clients_ = net.open(host_, net.clients());
}

simulated_bus::~simulated_bus() {
  vanish();
}

void simulated_bus::vanish() {
  if (std::exchange(vanished_, true))
    return;
  links_.vanish(*this);
  streams_.clear();
  from_clients_->reset();
  to_clients_->reset();
  subscribers_.clear();
  gateway_ = nullptr;
}

// -- actors -------------------------------------------------------------------

void simulated_bus::tell(const caf::strong_actor_ptr& to,
                         caf::message content) {
  if (to)
    to->enqueue(nullptr, caf::message_id{}, std::move(content), nullptr);
}

void simulated_bus::subscribe(caf::strong_actor_ptr actor, std::string role) {
  if (vanished_)
    return;
  std::erase_if(subscribers_, [](auto& s) {
    return caf::actor_cast<caf::strong_actor_ptr>(s.who) == nullptr;
  });
  for (auto& m : members().peers)
    if (role.empty() || m.has_role(role))
      tell(actor, caf::make_message(peer_up{m}));
  subscribers_.push_back(
    {caf::actor_cast<caf::weak_actor_ptr>(actor), std::move(role)});
}

void simulated_bus::tell_subscribers(const member& about,
                                     const caf::message& content) {
  for (auto& s : subscribers_)
    if (s.role.empty() || about.has_role(s.role))
      if (auto to = caf::actor_cast<caf::strong_actor_ptr>(s.who))
        links_.world().soon(process_,
                            [this, to, content] { tell(to, content); });
}

member_list simulated_bus::members() const {
  member_list out{self_, {}, {}, {}};
  if (vanished_)
    return out;
  for (auto n : links_.present_)
    if (n != number_ && links_.sees(number_, n))
      out.peers.push_back(links_.starts_[n].info);
  out.lost = links_.lost_.list(links_.world().now());
  out.left = links_.left_.list(links_.world().now());
  return out;
}

void simulated_bus::lose(size_t number, const member& whom,
                         const std::string& reason, bool left) {
  outside_.on_link(self_, whom, false);
  if (auto i = streams_.find(number);
      i != streams_.end() && links_.bug() != planted_bug::stale_link)
    i->second->reset();
  links_.world().soon(process_, [this, whom, reason, left] {
    if (vanished_)
      return;
    board_.peer_lost(whom, reason, nullptr);
    log_event(log_level::warning, "bus", "peer_down",
              {{"node", self_.name}, {"peer", whom.name}, {"reason", reason}});
  });
  tell_subscribers(whom, caf::make_message(peer_down{whom, reason, left}));
}

// -- other nodes --------------------------------------------------------------

/// A process receives one message after the other.
template <class F>
void simulated_bus::when_received(F what) {
  auto takes = links_.network().settings().per_message;
  if (takes == 0us)
    return what();
  auto& world = links_.world();
  busy_until_ = std::max(busy_until_, world.now()) + takes;
  world.at(busy_until_, process_, std::move(what));
}

uint64_t simulated_bus::incarnation_of(std::string_view node) const {
  auto i = links_.by_name_.find(node);
  return !vanished_ && i != links_.by_name_.end()
             && links_.sees(number_, i->second)
           ? links_.starts_[i->second].info.incarnation
           : 0;
}

simulated_network::stream& simulated_bus::stream_to(size_t number,
                                                    host_number host) {
  auto& out = streams_[number];
  if (!out)
    out = links_.network().open(host_, host);
  return *out;
}

bool simulated_bus::carry(const std::string& node, uint64_t incarnation,
                          wire_message message) {
  if (vanished_)
    return false;
  auto i = links_.by_name_.find(node);
  if (i == links_.by_name_.end() || !links_.sees(number_, i->second))
    return false;
  auto& other = links_.starts_[i->second];
  if (other.info.incarnation != incarnation)
    return false;
  auto& stream = stream_to(i->second, other.host);
  if (stream.waiting() >= most_waiting)
    return false;
  struct parcel {
    shared_bytes head;
    wire_message body;
  };
  outside_.on_posted(self_, other.info, message, links_.world().now());
  auto y = std::make_shared<parcel>();
  y->head = encode_header(message.head, board_.now());
  y->body = std::move(message);
  auto bytes = y->head.size() + y->body.bytes();
  if (other.bus == nullptr)
    return true; // it has ended, and this node has not detected it yet
  stream.send(bytes, &other.bus->process_,
              [from = number_, to = other.bus, y = std::move(y)] {
                to->when_received([=] { to->arrive(from, y->head, y->body); });
              });
  return true;
}

void simulated_bus::arrive(size_t from, const shared_bytes& head,
                           const wire_message& message) {
  if (vanished_)
    return;
  auto& sender = links_.starts_[from].info;
  auto opened = open_frame(head.view(), board_.now());
  auto linked =
    links_.sees(number_, from) || links_.bug() == planted_bug::stale_link;
  if (!linked || !opened || opened->head.inc != self_.incarnation
      || links_.shows(planted_bug::lost_message)) {
    return;
  }
  outside_.on_delivered(sender, self_, opened->head, links_.world().now());
  wire_message y{std::move(opened->head), message.body, message.attachments};
  if (auto done = board_.deliver(sender, y, nullptr); !done)
    log_event(log_level::error, "bus", "undecodable",
              {{"from", sender.name},
               {"type", y.head.t},
               {"error", to_string(done.failure())}});
}

// -- clients ------------------------------------------------------------------

void simulated_bus::to_gateway(caf::message content) {
  if (!vanished_)
    tell(gateway_, std::move(content));
}

void simulated_bus::client_sends(const session& from, uint64_t id, infer wanted,
                                 microseconds deadline, int32_t priority) {
  auto bytes = client_header + bytes_of(wanted.inputs);
  auto request = std::make_shared<client_request>();
  request->tag.id = id;
  if (deadline != microseconds::max())
    request->due.at = process_.local(links_.world().now() + deadline);
  request->priority = priority;
  request->request = std::move(wanted);
  from_clients_->send(bytes, &process_, [this, from, request] {
    when_received([this, from, request] {
      outside_.on_read(self_, request->tag.id, links_.world().now());
      // Without a gateway the request group answers when it is destroyed.
      auto group = std::make_shared<request_group>(this, from);
      group->requests.push_back(std::move(*request));
      to_gateway(caf::make_message(client_requests{std::move(group)}));
    });
  });
}

void simulated_bus::client_cancels(const session& from, uint64_t id) {
  from_clients_->send(client_header, &process_, [this, from, id] {
    when_received([this, from, id] {
      outside_.on_cancel_read(self_, id, links_.world().now());
      to_gateway(caf::make_message(client_cancel{from, id}));
    });
  });
}

void simulated_bus::answer(const session& to, client_tag tag,
                           infer_reply reply) {
  if (vanished_)
    return;
  auto bytes = client_header + bytes_of(reply.outputs);
  outside_.on_answered(self_, tag.id, reply, links_.world().now());
  if (links_.shows(planted_bug::lost_answer))
    return;
  if (links_.shows(planted_bug::wrong_client))
    tag.id = tag.id > 1 ? tag.id - 1 : tag.id + 1;
  auto copies = links_.shows(planted_bug::double_answer) ? 2 : 1;
  auto y = std::make_shared<infer_reply>(std::move(reply));
  for (; copies > 0; --copies)
    to_clients_->send(bytes, nullptr, [this, to, tag, y] {
      outside_.on_reply(to, tag.id, *y, links_.world().now());
    });
}

void simulated_bus::answer(const session&, client_tag, model_list_reply) {
  // No simulated client asks for models.
}

void simulated_bus::deliver_from_operator(wire_message message) {
  auto mid = caf::message_id{message.head.id & caf::message_id::request_id_mask}
               .with_category(caf::message_id::normal_message_category);
  auto reply_to = operators_.of("operator");
  auto allowed = may_say(role::operating, message.head.t)
                 || links_.bug() == planted_bug::open_door;
  if (vanished_ || !allowed || !reply_to)
    return;
  message.head.id = mid.integer_value();
  links_.world().soon(process_, [this, reply_to, y = std::move(message)] {
    if (!vanished_)
      static_cast<void>(board_.deliver(reply_to, y, nullptr));
  });
}

} // namespace millrace
