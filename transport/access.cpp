// SPDX-License-Identifier: Apache-2.0
#include "transport/access.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "transport/message_types.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

namespace {

// The table of roles and messages. Each message that crosses the wire is in one
// row; some roles may also send those of another row, see may_say.

using clients_say = std::tuple<infer, cancel, describe_models>;

using viewers_say =
  std::tuple<get_members, get_status, get_load, get_models, get_starts,
             get_clock, get_events, examine, get_spans, get_queue, get_requests,
             get_profiles, get_plans, get_chains, get_store, get_cache,
             get_demand, get_scaling, get_decisions, get_decision_records,
             get_machines>;

using operators_say =
  std::tuple<set_model, forget_model, pin_model, unpin_model, set_scope, drain,
             slow_device, set_log, record_spans, measure_model, keep_profile,
             forget_profiles>;

using nodes_say = std::tuple<
  // answers
  error_reply, ack, member_list, node_status, model_list, start_list,
  device_load, replica_load, node_load, clock_reading, event_list, examination,
  span_list, queue_status, request_list, profile_list, plan_list, measured,
  chain_list, store_status, cache_status, demand_list, scaling_list,
  decision_list, decision_records, machine_list,
  // links
  hello, hello_rejected, heartbeat, goodbye, monitor_remote, remote_down,
  // the request path
  replica_ready, replica_tuned, replica_draining, router_released, run_batch,
  batch_accepted, batch_ran, forward_batch, drop_batch, batch_not_found,
  next_stage_unreachable, batch_done,
  // to controllers
  replica_status, inventory, content_report, demand_report, pressure,
  // between hosts, on endpoints of their own
  bulk_ask, bulk_head, bulk_chunk, bulk_refusal>;

using controllers_say =
  std::tuple<deploy, adjust, adjust_device, evict, wanted_models,
             report_inventory, measure, set_sources, pin_content,
             pinned_contents, report_contents>;

/// Replies of gateways leave through the clients' endpoints; no node accepts
/// one.
using nobody_says = std::tuple<infer_reply, model_list_reply>;

using table = decltype(std::tuple_cat(
  std::declval<clients_say>(), std::declval<viewers_say>(),
  std::declval<operators_say>(), std::declval<nodes_say>(),
  std::declval<controllers_say>(), std::declval<nobody_says>()));

template <class T, class... Us>
constexpr size_t times_in(std::tuple<Us...>*) {
  return (size_t{std::is_same_v<T, Us>} + ... + 0);
}

/// Whether each type of a list is in the table exactly once.
template <class... Ts>
constexpr bool each_has_its_row(std::tuple<Ts...>*) {
  return ((times_in<Ts>(static_cast<table*>(nullptr)) == 1) && ...)
         && sizeof...(Ts) == std::tuple_size_v<table>;
}

static_assert(each_has_its_row(static_cast<all_messages*>(nullptr)),
              "a new message has to be in one row of this table");

template <class Row>
bool in(std::string_view type) {
  static const auto names = []<class... Ts>(std::tuple<Ts...>*) {
    return std::array{std::string_view{Ts::record_name()}...};
  }(static_cast<Row*>(nullptr));
  return std::find(names.begin(), names.end(), type) != names.end();
}

} // namespace

bool may_say(role who, std::string_view type) {
  switch (who) {
  case role::client:
    return in<clients_say>(type);
  case role::viewer:
    return in<viewers_say>(type);
  case role::operating:
    return in<viewers_say>(type) || in<operators_say>(type);
  case role::node: // a shell may query any node through this one
    return in<nodes_say>(type) || in<viewers_say>(type);
  case role::controller: // orders may pass through a controller
    return in<controllers_say>(type) || in<operators_say>(type)
           || may_say(role::node, type);
  }
  return false;
}

bool is_order(std::string_view type) {
  return in<operators_say>(type);
}

std::string order_text(const wire_message& message) {
  auto body = message.body;
  auto read = [&]<class T>(T*) {
    if (message.head.t != T::record_name())
      return;
    decode_context ctx;
    auto order = decode<T>(message.body.view(), ctx);
    if (!order)
      return;
    encoder whole{timestamp{}, nullptr};
    whole.put(*order);
    body = whole.take_body();
  };
  [&]<class... Ts>(std::tuple<Ts...>*) {
    (read(static_cast<Ts*>(nullptr)), ...);
  }(static_cast<operators_say*>(nullptr));
  return printed(body.view());
}

std::string access_reference() {
  std::string out = "| message |", line = "|---|";
  for (auto name : names_of(role{})) {
    out += " " + std::string{name} + " |";
    line += "---|";
  }
  out += "\n" + line + "\n";
  for (auto type : message_names()) {
    out += "| `" + std::string{type} + "` |";
    for (size_t i = 0; i < names_of(role{}).size(); ++i)
      out += may_say(static_cast<role>(i), type) ? " yes |" : " |";
    out += "\n";
  }
  return out;
}

} // namespace millrace
