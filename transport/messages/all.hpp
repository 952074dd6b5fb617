// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The one list of messages that cross the wire. A message is declared in its
/// protocol's header and named here, nowhere else.

#include <tuple>

#include "transport/messages/bulk.hpp"
#include "transport/messages/chain.hpp"
#include "transport/messages/cluster.hpp"
#include "transport/messages/decision.hpp"
#include "transport/messages/demand.hpp"
#include "transport/messages/envelope.hpp"
#include "transport/messages/infer.hpp"
#include "transport/messages/inside.hpp"
#include "transport/messages/load.hpp"
#include "transport/messages/machine.hpp"
#include "transport/messages/model.hpp"
#include "transport/messages/peer.hpp"
#include "transport/messages/profile.hpp"
#include "transport/messages/record.hpp"
#include "transport/messages/replica.hpp"

namespace millrace {

using all_messages = std::tuple<
  // envelope
  error_reply, ack,
  // peer
  hello, hello_rejected, heartbeat, goodbye, monitor_remote, remote_down,
  // infer
  infer, infer_reply, cancel, describe_models, model_list_reply,
  // replica
  replica_ready, replica_tuned, replica_draining, router_released, run_batch,
  batch_accepted, batch_ran, forward_batch, drop_batch, batch_not_found,
  next_stage_unreachable, batch_done,
  // cluster
  deploy, adjust, adjust_device, slow_device, evict, wanted_models,
  replica_status, inventory, report_inventory, set_model, forget_model,
  pin_model, unpin_model, set_scope, get_members, member_list, get_status,
  node_status, get_models, model_list, get_starts, start_list, drain,
  // demand and decisions
  demand_report, pressure, get_demand, demand_list, get_scaling, scaling_list,
  get_decisions, decision_list, get_decision_records, decision_records,
  get_machines, machine_list,
  // load
  get_load, device_load, replica_load, node_load,
  // profile
  measure_model, keep_profile, forget_profiles, get_profiles, profile_list,
  get_plans, plan_list, measure, measured,
  // inside
  get_clock, clock_reading, get_events, event_list, set_log, examine,
  examination, record_spans, get_spans, span_list, get_queue, queue_status,
  get_requests, request_list,
  // bulk
  bulk_ask, bulk_head, bulk_chunk, bulk_refusal,
  // chain
  content_report, set_sources, pin_content, pinned_contents, report_contents,
  get_chains, chain_list, get_store, store_status, get_cache, cache_status>;

} // namespace millrace
