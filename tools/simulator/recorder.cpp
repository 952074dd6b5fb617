// SPDX-License-Identifier: Apache-2.0
#include "simulator/recorder.hpp"

#include "actors/messages/contents.hpp"
#include "runtime/text.hpp"

#include <algorithm>

#include "simulator/log_line.hpp"
#include "simulator/model.hpp"

namespace millrace::simulator {

std::string outcome_of(const request_row& row) {
  if (row.status)
    return std::string{to_string(*row.status)};
  return row.ended < microseconds{0} ? "(no answer)" : "(connection lost)";
}

uint32_t name_list::number_of(const std::string& name) {
  auto [i, fresh] =
    numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (fresh)
    names_.push_back(name);
  return i->second;
}

recorder::recorder(timestamp begin, microseconds length)
  : begin_(begin),
    book_(begin) {
  record_.length = length;
}

record recorder::take() {
  auto end = begin_ + record_.length;
  for (auto& [name, since] : up_since_)
    record_.reserved[name] +=
      to_us(std::max(end, since) - std::max(since, begin_));
  record_.leases = book_.leases();
  add_starting();
  return std::move(record_);
}

/// Adds the replicas that were decided on and not loaded at the end of the run:
/// these reserve their devices.
void recorder::add_starting() {
  for (auto& [device, pending] : decided_)
    for (auto& x : pending) {
      if (!x.starts || x.at > record_.length)
        continue;
      replica_row row;
      row.device = record_.names.number_of(device);
      auto version = x.replica.rfind('.', x.replica.rfind('.') - 1);
      row.model = record_.names.number_of(x.replica.substr(0, version));
      row.source.clear();
      row.decided = x.at;
      record_.replicas.push_back(row);
    }
}

void recorder::on_sent(const sent_request& request) {
  request_row row;
  row.part = request.part;
  row.model = record_.names.number_of(request.model);
  row.function = request.function;
  row.sent = since_start(request.when);
  record_.requests.push_back(row);
}

void recorder::on_reply(const session&, uint64_t id, const infer_reply& reply,
                        timestamp when) {
  if (id == 0 || id > record_.requests.size())
    return;
  auto& row = record_.requests[id - 1];
  row.ended = since_start(when);
  row.status = reply.status;
  row.queue = reply.queue;
  row.execute = reply.execute;
  row.gathered = reply.gathered;
  row.interference = reply.interference;
  row.batch = reply.batch;
  row.replica = record_.names.number_of(reply.replica);
  if (!reply.model.empty())
    row.model = record_.names.number_of(reply.model);
}

void recorder::on_cut_short(uint64_t id, timestamp when) {
  record_.requests[id - 1].ended = since_start(when);
}

void recorder::on_executed(const executed_batch& batch) {
  batch_row row;
  row.device = record_.names.number_of(to_string(batch.where));
  row.model = record_.names.number_of(batch.model);
  row.requests = static_cast<uint32_t>(batch.requests.size());
  row.lane = batch.lane;
  row.ok = batch.ok;
  row.first = record_.batch_requests.size();
  record_.batch_requests.insert(record_.batch_requests.end(),
                                batch.requests.begin(), batch.requests.end());
  row.started = since_start(batch.started);
  row.ended = since_start(batch.ended);
  row.first_layer = batch.first_layer;
  row.last_layer = batch.last_layer;
  if (auto i = copies_.find(to_string(batch.where) + "#"
                            + std::to_string(batch.instance));
      i != copies_.end())
    row.replica = i->second + 1;
  follow(row, batch.requests);
  record_.batches.push_back(row);
}

/// Finds the row of the stage before by the request ids, independently of the
/// actors' batch numbers.
void recorder::follow(batch_row& row, const std::vector<uint64_t>& requests) {
  auto before =
    requests.empty() ? last_batch_.end() : last_batch_.find(requests.front());
  auto* last =
    before == last_batch_.end() ? nullptr : &record_.batches[before->second];
  if (last != nullptr && row.first_layer > 0 && last->ok
      && last->last_layer == row.first_layer) {
    row.id = last->id;
    row.arrived = last->ended;
  } else {
    row.id = ++batch_ids_;
    row.arrived = row.started;
    for (auto id : requests)
      if (id > 0 && id <= record_.requests.size())
        row.arrived = std::min(row.arrived, record_.requests[id - 1].sent);
  }
  for (auto id : requests)
    last_batch_[id] = record_.batches.size();
}

void recorder::on_object_sent(const std::string&, const std::string&,
                              uint64_t bytes) {
  record_.store_bytes += bytes;
}

void recorder::on_loaded(const device_name& where, const load_request& request,
                         timestamp begun, const result<load_report>& how,
                         timestamp when) {
  replica_row row;
  auto place = to_string(where);
  row.device = record_.names.number_of(place);
  row.model = record_.names.number_of(request.content->info.name);
  row.begun = since_start(begun);
  std::string replica;
  if (auto decision = take_decision(place, request.content->info.name)) {
    row.decided = decision->at;
    replica = decision->replica;
  }
  if (how) {
    row.ready = since_start(when);
    copies_[place + "#" + std::to_string(request.instance)] =
      record_.replicas.size();
    if (!replica.empty())
      loaded_[replica] = record_.replicas.size();
  } else {
    row.ended = since_start(when);
  }
  record_.replicas.push_back(row);
}

void recorder::on_unloaded(const device_name& where, instance_id instance,
                           timestamp when) {
  auto i = copies_.find(to_string(where) + "#" + std::to_string(instance));
  if (i == copies_.end())
    return;
  record_.replicas[i->second].ended = since_start(when);
  copies_.erase(i);
}

void recorder::on_node(const std::string& node, std::string_view what,
                       timestamp when) {
  book_.note(node, what, when);
  if (what == "started")
    up_since_[node] = when;
  else if (what != "paused" && what != "resumed")
    gone(node, when);
}

void recorder::on_machine(const std::string& machine, std::string_view what,
                          timestamp when) {
  book_.note(machine, what, when);
}

void recorder::gone(const std::string& node, timestamp when) {
  auto since = std::max(up_since_[node], begin_);
  record_.reserved[node] += to_us(std::max(when, since) - since);
  up_since_.erase(node);
  auto d = decided_.lower_bound(node + "/");
  while (d != decided_.end() && d->first.starts_with(node + "/"))
    d = decided_.erase(d);
  auto i = copies_.lower_bound(node + "/");
  for (; i != copies_.end() && i->first.starts_with(node + "/");
       i = copies_.erase(i))
    record_.replicas[i->second].ended = since_start(when);
}

void recorder::on_decision(std::string_view event, timestamp when) {
  auto field = [&](std::string_view key) {
    return std::string{field_of(event, key)};
  };
  decided_[field("node") + "/" + field("device")].push_back(
    {field("replica"), since_start(when), false});
}

/// For a replica that failed or was evicted before the end of its load.
void recorder::forget_decision(std::string_view replica) {
  for (auto& [device, pending] : decided_)
    std::erase_if(pending, [&](auto& x) { return x.replica == replica; });
}

void recorder::on_starting(std::string_view replica) {
  for (auto& [device, pending] : decided_)
    for (auto& x : pending)
      x.starts |= x.replica == replica;
}

std::optional<recorder::decision>
recorder::take_decision(const std::string& device, const std::string& model) {
  auto& pending = decided_[device];
  auto i = std::find_if(pending.begin(), pending.end(), [&](auto& x) {
    return x.replica.starts_with(model + ".");
  });
  if (i == pending.end())
    return std::nullopt;
  auto out = std::move(*i);
  pending.erase(i);
  return out;
}

/// The log event of a ready replica has its source and the duration of the
/// fetch.
void recorder::on_ready(std::string_view event) {
  auto i = loaded_.find(std::string{field_of(event, "replica")});
  if (i == loaded_.end())
    return;
  auto& row = record_.replicas[i->second];
  loaded_.erase(i);
  row.fetch =
    microseconds{number_in<int64_t>(field_of(event, "fetch_us")).value_or(0)};
  switch (where_found(std::string{field_of(event, "from")})) {
  case found_in::disk:
    row.source = "host";
    break;
  case found_in::stores:
    row.source = "store";
    break;
  case found_in::hosts:
    row.source = "hosts";
    break;
  default:
    break;
  }
}

void recorder::on_log(log_level level, std::string_view line, timestamp when) {
  record_.errors += level == log_level::error;
  auto name = line.substr(0, line.find(' '));
  if (name.starts_with("fault.") && name != "fault.over")
    ++record_.faults[std::string{name.substr(6)}];
  if (name == "placement.deploy")
    on_decision(line, when);
  else if (name == "replica.starting")
    on_starting(field_of(line, "replica"));
  else if (name == "replica.ready")
    on_ready(line);
  else if (name == "provider.ready")
    book_.note(std::string{field_of(line, "machine")}, "ready", when);
  else if (name == "placement.evict" || name == "replica.failed")
    forget_decision(field_of(line, "replica"));
  record_.events.push_back({since_start(when), std::string{line}, level});
}

} // namespace millrace::simulator
