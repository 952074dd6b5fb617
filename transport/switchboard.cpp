// SPDX-License-Identifier: Apache-2.0
#include "transport/switchboard.hpp"

#include <algorithm>

#include <caf/detail/sync_request_bouncer.hpp>
#include <caf/make_actor.hpp>
#include <caf/sec.hpp>

#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "transport/message_types.hpp"
#include "transport/messages/all.hpp"
#include "transport/remote_actor.hpp"

namespace millrace {

namespace {

/// A socket closes its connection on a larger message, which would lose all
/// other messages of the connection. Errors: too_large.
result<void> check_frames(const wire_message& x) {
  auto longest = x.body.size();
  for (auto& raw : x.attachments)
    longest = std::max(longest, raw.size());
  if (longest <= wire_limits::message_bytes
      && x.attachments.size() <= wire_limits::attachments)
    return {};
  return error{ec::too_large,
               "a message " + x.head.t + " of "
                 + std::to_string(x.attachments.size())
                 + " tensors, the largest frame of " + format_bytes(longest)
                 + ", is not sent to another node (at most "
                 + std::to_string(wire_limits::attachments) + " tensors, "
                 + format_bytes(wire_limits::message_bytes) + " a frame)",
               {}};
}

void send_error(const caf::strong_actor_ptr& to, caf::message_id mid,
                const error& x, caf::execution_unit* host) {
  if (to && mid.is_request())
    to->enqueue(nullptr, mid.response_id(), caf::make_message(to_caf(x)), host);
}

/// The node that a report is about: nodes send reports about themselves only.
/// Null for other messages.
const std::string* reported_node(const caf::message& x) {
  if (x.match_elements<inventory>())
    return &x.get_as<inventory>(0).state.node.name;
  if (x.match_elements<demand_report>())
    return &x.get_as<demand_report>(0).node;
  if (x.match_elements<content_report>())
    return &x.get_as<content_report>(0).node;
  return nullptr;
}

/// Removes entries of ended actors, once the map has doubled.
template <class Map, class F>
void prune(Map& xs, size_t& at, F pointer_of) {
  if (xs.size() < at)
    return;
  std::erase_if(xs, [&](auto& x) {
    return caf::actor_cast<caf::strong_actor_ptr>(pointer_of(x.second))
           == nullptr;
  });
  at = std::max(at, xs.size() * 2);
}

} // namespace

result<wire_message> encode_content(const caf::type_erased_tuple& content,
                                    timestamp now, address_book* book) {
  if (content.empty())
    return make_wire_message(ack{}, now, book);
  if (content.match_elements<caf::error>()) {
    auto x = from_caf(content.get_as<caf::error>(0));
    return make_wire_message(error_reply{x.code, x.text, x.retry_after}, now,
                             book);
  }
  auto* info = content.size() == 1 ? content.type(0).second : nullptr;
  auto* type = info == nullptr ? nullptr : find_message_type(*info);
  if (type == nullptr)
    return error{ec::internal,
                 "an undeclared message was sent to another"
                 " node: "
                   + content.stringify(),
                 {}};
  encoder body{now, book};
  type->encode(body, content.get(0));
  wire_message out;
  out.head.v = protocol_version;
  out.head.t = type->name;
  out.body = body.take_body();
  out.attachments = body.take_attachments();
  return out;
}

switchboard::switchboard(caf::actor_system& system, std::string node,
                         carrier& out)
  : system_(system),
    node_(std::move(node)),
    out_(out) {
}

switchboard::~switchboard() = default;

timestamp switchboard::now() const {
  return system_.clock().now();
}

// -- addresses ----------------------------------------------------------------

std::string switchboard::address_of(const caf::strong_actor_ptr& actor) {
  if (!actor)
    return {};
  {
    // Most senders have a name.
    std::lock_guard guard{mutex_};
    if (auto i = address_of_.find(actor->id()); i != address_of_.end())
      return i->second;
  }
  if (auto* proxy = as_proxy(actor))
    return proxy->node() + "/" + proxy->actor_name();
  std::lock_guard guard{mutex_};
  prune(
    numbered_, prune_numbered_at_, [](auto& y) -> auto& { return y; });
  numbered_.emplace(actor->id(), caf::actor_cast<caf::weak_actor_ptr>(actor));
  return node_ + "/#" + std::to_string(actor->id());
}

caf::strong_actor_ptr switchboard::resolve(std::string_view address) {
  auto slash = address.find('/');
  if (slash == std::string_view::npos)
    return nullptr;
  auto node = address.substr(0, slash);
  auto name = address.substr(slash + 1);
  if (node == node_ || node == ".")
    return find_local(name);
  return proxy_for(node, name, true);
}

void switchboard::publish(const std::string& name,
                          caf::strong_actor_ptr actor) {
  std::lock_guard guard{mutex_};
  if (auto i = named_.find(name); i != named_.end()) {
    address_of_.erase(i->second->id());
    named_.erase(i);
  }
  if (!actor)
    return;
  address_of_[actor->id()] = node_ + "/" + name;
  named_[name] = std::move(actor);
}

caf::strong_actor_ptr switchboard::find_local(std::string_view name) {
  std::lock_guard guard{mutex_};
  if (auto i = named_.find(name); i != named_.end())
    return i->second;
  if (name.empty() || name.front() != '#')
    return nullptr;
  auto id = number_in<caf::actor_id>(name.substr(1));
  auto i = id ? numbered_.find(*id) : numbered_.end();
  return i == numbered_.end()
           ? nullptr
           : caf::actor_cast<caf::strong_actor_ptr>(i->second);
}

caf::strong_actor_ptr switchboard::find_here(std::string_view address) {
  auto here = address.size() > node_.size() && address.starts_with(node_)
              && address[node_.size()] == '/';
  return here ? find_local(address.substr(node_.size() + 1)) : nullptr;
}

caf::strong_actor_ptr switchboard::proxy_for(std::string_view node,
                                             std::string_view name,
                                             bool watched) {
  caf::strong_actor_ptr out;
  uint64_t incarnation = 0;
  bool must_watch = false;
  {
    std::lock_guard guard{mutex_};
    // Queried under the lock: a link that ends later finds the proxy.
    incarnation = out_.incarnation_of(node);
    if (incarnation == 0)
      return nullptr;
    auto known = peers_.find(node);
    if (known == peers_.end())
      known = peers_.emplace(std::string{node}, peer{}).first;
    auto& p = known->second;
    prune(
      p.proxies, p.prune_at, [](auto& x) -> auto& { return x.proxy; });
    auto there = p.proxies.find(name);
    if (there == p.proxies.end())
      there = p.proxies.emplace(std::string{name}, proxy_entry{}).first;
    auto& entry = there->second;
    out = caf::actor_cast<caf::strong_actor_ptr>(entry.proxy);
    if (!out) {
      caf::actor_config cfg;
      out = caf::make_actor<remote_actor, caf::strong_actor_ptr>(
        system_.next_actor_id(), system_.node(), &system_, cfg, *this,
        std::string{node}, incarnation, std::string{name});
      entry = {caf::actor_cast<caf::weak_actor_ptr>(out), false};
    }
    must_watch = watched && !entry.watched;
    entry.watched = entry.watched || watched;
  }
  if (must_watch)
    send_control(
      std::string{node}, incarnation,
      make_wire_message(monitor_remote{std::string{name}}, now(), nullptr));
  return out;
}

// -- links --------------------------------------------------------------------

void switchboard::peer_lost(const member& node, const std::string& reason,
                            caf::execution_unit* host) {
  std::vector<caf::strong_actor_ptr> lost;
  {
    std::lock_guard guard{mutex_};
    auto i = peers_.find(node.name);
    if (i == peers_.end())
      return;
    for (auto& [name, entry] : i->second.proxies)
      if (auto ptr = caf::actor_cast<caf::strong_actor_ptr>(entry.proxy))
        lost.push_back(std::move(ptr));
    peers_.erase(i);
    for (auto& [id, who] : watchers_)
      who.erase(node.name);
  }
  for (auto& ptr : lost)
    static_cast<remote_actor*>(caf::actor_cast<caf::abstract_actor*>(ptr))
      ->kill_proxy(
        host,
        to_caf({ec::unavailable, "node " + node.name + ": " + reason, {}}));
}

void switchboard::send_control(const std::string& node, uint64_t incarnation,
                               wire_message message) {
  message.head.inc = incarnation;
  out_.carry(node, incarnation, std::move(message));
}

void switchboard::forward(const remote_actor& to, caf::mailbox_element& what) {
  auto refuse = [&](const error& x) {
    if (what.mid.is_request())
      send_error(what.sender, what.mid, x, nullptr);
    else
      log_event(
        log_level::warning, "bus", "undelivered",
        {{"to", to.node() + "/" + to.actor_name()}, {"error", to_string(x)}});
  };
  auto x = encode_content(what.content(), now(), this);
  if (!x)
    return refuse(x.failure());
  if (auto fits = check_frames(*x); !fits)
    return refuse(fits.failure());
  x->head.id = what.mid.integer_value();
  x->head.inc = to.incarnation();
  x->head.to = to.node() + "/" + to.actor_name();
  x->head.from = address_of(what.sender);
  if (!out_.carry(to.node(), to.incarnation(), std::move(*x)))
    refuse({ec::unavailable, "no link to node " + to.node(), {}});
}

// -- delivery -----------------------------------------------------------------

result<caf::message> switchboard::decode_content(const wire_message& received) {
  decode_context ctx{now(), this, received.attachments, 0};
  if (received.head.t == ack::record_name())
    return caf::make_message(ack{});
  if (received.head.t == error_reply::record_name()) {
    auto e = decode<error_reply>(received.body.view(), ctx);
    if (!e)
      return e.failure();
    return caf::make_message(to_caf(error{e->code, e->text, e->retry_after}));
  }
  auto* type = find_message_type(received.head.t);
  if (type == nullptr)
    return error{
      ec::bad_request, "unknown message type " + shown(received.head.t), {}};
  return type->decode(received.body.view(), ctx);
}

result<void> switchboard::deliver(const member& from,
                                  const wire_message& message,
                                  caf::execution_unit* host) {
  if (message.head.t == monitor_remote::record_name()
      || message.head.t == remote_down::record_name()) {
    auto content = decode_content(message);
    if (!content)
      return content.failure();
    if (content->match_elements<monitor_remote>())
      on_monitor_remote(from, content->get_as<monitor_remote>(0));
    else
      on_remote_down(from, content->get_as<remote_down>(0), host);
    return {};
  }
  caf::strong_actor_ptr sender;
  if (std::string_view claimed = message.head.from; !claimed.empty()) {
    auto& node = from.name;
    if (!claimed.starts_with(node) || claimed.substr(node.size(), 1) != "/")
      return error{
        ec::forbidden, "node " + node + " sent as " + shown(claimed), {}};
    sender = proxy_for(node, claimed.substr(node.size() + 1), false);
  }
  auto target = find_here(message.head.to);
  if (!target && message.head.to.starts_with(node_ + "/"))
    send_remote_down(
      from, message.head.to.substr(node_.size() + 1),
      {ec::unavailable, "no actor " + shown(message.head.to, 120), {}});
  return hand_over(from.name, sender,
                   target ? target : resolve(message.head.to), message, host);
}

void switchboard::refuse(const member& from, const wire_message& message,
                         const error& why, caf::execution_unit* host) {
  std::string_view claimed = message.head.from;
  if (message.head.id == 0 || !claimed.starts_with(from.name + "/"))
    return;
  auto sender =
    proxy_for(from.name, claimed.substr(from.name.size() + 1), false);
  send_error(sender, caf::message_id{message.head.id}, why, host);
}

result<void> switchboard::deliver(const caf::strong_actor_ptr& reply_to,
                                  const wire_message& message,
                                  caf::execution_unit* host) {
  return hand_over({}, reply_to, resolve(message.head.to), message, host);
}

result<void> switchboard::hand_over(const std::string& from,
                                    const caf::strong_actor_ptr& sender,
                                    const caf::strong_actor_ptr& target,
                                    const wire_message& message,
                                    caf::execution_unit* host) {
  caf::message_id mid{message.head.id == 0 ? caf::message_id{}
                                           : caf::message_id{message.head.id}};
  auto content = decode_content(message);
  if (!content) {
    send_error(sender, mid, content.failure(), host);
    return content.failure();
  }
  if (auto* node = reported_node(*content);
      node != nullptr && !from.empty() && *node != from)
    return error{
      ec::forbidden, "node " + from + " reported as node " + shown(*node), {}};
  if (!target) {
    send_error(sender, mid,
               {ec::unavailable, "no actor " + shown(message.head.to, 120), {}},
               host);
    return {};
  }
  target->enqueue(sender, mid, std::move(*content), host);
  return {};
}

std::vector<std::string>
switchboard::published(const std::string& prefix) const {
  std::vector<std::string> out;
  std::lock_guard guard{mutex_};
  for (auto& [name, x] : named_)
    if (name.starts_with(prefix))
      out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

void switchboard::on_monitor_remote(const member& from,
                                    const monitor_remote& message) {
  auto target = find_local(message.actor);
  if (!target)
    return send_remote_down(
      from, message.actor,
      {ec::unavailable, "no actor " + shown(message.actor), {}});
  auto id = target->id();
  {
    std::lock_guard guard{mutex_};
    auto [i, first] = watchers_.try_emplace(id);
    i->second[from.name] = from;
    if (!first)
      return; // one functor informs all nodes
  }
  caf::actor_cast<caf::abstract_actor*>(target)->attach_functor(
    [this, id, name = message.actor](const caf::error& reason) {
      tell_watchers(id, name, from_caf(reason));
    });
}

void switchboard::tell_watchers(caf::actor_id id, const std::string& actor,
                                const error& reason) {
  std::map<std::string, member> who;
  {
    std::lock_guard guard{mutex_};
    if (auto i = watchers_.find(id); i != watchers_.end()) {
      who = std::move(i->second);
      watchers_.erase(i);
    }
  }
  for (auto& [node, x] : who)
    send_remote_down(x, actor, reason);
}

void switchboard::send_remote_down(const member& to, const std::string& actor,
                                   const error& reason) {
  send_control(
    to.name, to.incarnation,
    make_wire_message(remote_down{actor, {reason.code, reason.text, {}}}, now(),
                      nullptr));
}

void switchboard::on_remote_down(const member& from, const remote_down& message,
                                 caf::execution_unit* host) {
  caf::strong_actor_ptr lost;
  {
    std::lock_guard guard{mutex_};
    auto i = peers_.find(from.name);
    if (i == peers_.end())
      return;
    auto k = i->second.proxies.find(message.actor);
    if (k == i->second.proxies.end())
      return;
    lost = caf::actor_cast<caf::strong_actor_ptr>(k->second.proxy);
    i->second.proxies.erase(k);
  }
  if (lost)
    static_cast<remote_actor*>(caf::actor_cast<caf::abstract_actor*>(lost))
      ->kill_proxy(host,
                   to_caf({message.reason.code, message.reason.text, {}}));
}

} // namespace millrace
