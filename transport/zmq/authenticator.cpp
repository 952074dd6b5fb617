// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/authenticator.hpp"

#include "runtime/log.hpp"
#include "runtime/text.hpp"

namespace millrace::zeromq {

namespace {

constexpr std::string_view peers_domain = "peers";
constexpr std::string_view operators_domain = "operators";
constexpr std::string_view clients_domain = "clients/";

} // namespace

authenticator::authenticator(zmq::context_t& context,
                             std::optional<node_keys> keys, traffic& counts,
                             witness report)
  : keys_(std::move(keys)),
    counts_(counts),
    report_(std::move(report)) {
  if (!keys_)
    return;
  book_.emplace(keys_->allowed);
  door_.emplace(context);
}

authenticator::endpoint authenticator::peers() {
  return {std::string{peers_domain}, {{}, role::controller, {}}};
}

authenticator::endpoint authenticator::operators() {
  return {std::string{operators_domain}, {{}, role::operating, {}}};
}

authenticator::endpoint authenticator::clients(const std::string& tenant) {
  return {std::string{clients_domain} + tenant, {{}, role::client, tenant}};
}

std::optional<curve_server>
authenticator::secured(const endpoint& place) const {
  if (!keys_)
    return std::nullopt;
  auto& pair = place.domain == peers_domain ? keys_->own : *keys_->cluster;
  return curve_server{pair, place.domain};
}

bool authenticator::fits(std::string_view domain, const identity& who) {
  switch (who.role) {
  case role::node:
  case role::controller:
    return domain == peers_domain;
  case role::viewer:
  case role::operating:
    return domain == operators_domain;
  case role::client:
    return domain.starts_with(clients_domain)
           && domain.substr(clients_domain.size()) == who.tenant;
  }
  return false;
}

void authenticator::answer(timestamp now) {
  if (!door_ || !std::exchange(asked_, false))
    return;
  auto may_come_in = [&](std::string_view domain, std::string_view key,
                         std::string_view address) {
    auto* who = book_->find(key);
    if (who != nullptr && fits(domain, *who)
        && !misconduct_.suspended(who->name, now))
      return true;
    counts_.dropped("refused_connection");
    std::string why;
    if (who != nullptr)
      why = fits(domain, *who) ? "is ignored for a minute"
                               : "its role or tenant has no access there";
    else if (who = book_->find_suspended(key); who != nullptr)
      why = "its key is suspended";
    else
      why = "an unknown key";
    note(notable::refusal, who == nullptr ? identity{} : *who,
         "was refused at " + std::string{domain} + ", from "
           + shown(address, 60) + ": " + why);
    return false;
  };
  while (door_->answer(may_come_in))
    ;
}

const identity* authenticator::speaker(const endpoint& at,
                                       zmq::message_t& frame, timestamp now) {
  if (!keys_)
    return &at.anybody;
  auto* who = book_->find(zeromq::key_of(frame));
  if (who != nullptr && fits(at.domain, *who)
      && !misconduct_.suspended(who->name, now))
    return who;
  counts_.dropped("key_not_allowed");
  return nullptr;
}

void authenticator::offence(const identity& who, const std::string& what,
                            timestamp now) {
  counts_.dropped("forbidden");
  if (who.name.empty()) // without keys senders have no name
    return;
  note(notable::refusal, who, what);
  if (!misconduct_.offends(who.name, now))
    return;
  note(notable::order, who, "is ignored for a minute");
  log_event(log_level::warning, "bus", "key_suspended",
            {{"key", who.name}, {"for", what}});
}

void authenticator::note(notable kind, const identity& who,
                         const std::string& what) {
  if (report_)
    report_(kind, who, what);
}

std::optional<key_pair> authenticator::own() const {
  return keys_ ? std::optional{keys_->own} : std::nullopt;
}

const std::string* authenticator::key_of(const std::string& node) const {
  static const std::string none;
  return keys_ ? book_->key_of(node) : &none;
}

} // namespace millrace::zeromq
