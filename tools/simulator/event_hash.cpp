// SPDX-License-Identifier: Apache-2.0
#include "simulator/event_hash.hpp"

#include "simulator/model.hpp"

namespace millrace::simulator {

void event_hash::add(std::string_view text) {
  for (auto c : text)
    hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
}

void event_hash::add(int64_t number) {
  hash_ = (hash_ ^ static_cast<uint64_t>(number)) * 0x100000001b3;
  hash_ ^= hash_ >> 29;
}

void event_hash::on_sent(const sent_request& request) {
  ++events_;
  add(static_cast<int64_t>(request.id));
  add(request.when);
  add(request.gateway);
  add(request.model);
}

void event_hash::on_reply(const session& to, uint64_t id,
                          const infer_reply& reply, timestamp when) {
  ++events_;
  add(to.connection);
  add(static_cast<int64_t>(id));
  add(to_string(reply.status));
  add(reply.replica);
  add(reply.queue.count());
  add(reply.execute.count());
  add(when);
}

void event_hash::on_cut_short(uint64_t id, timestamp when) {
  ++events_;
  add(static_cast<int64_t>(id));
  add(when);
}

void event_hash::on_executed(const executed_batch& batch) {
  ++events_;
  add(batch.where.node);
  add(batch.where.device);
  for (auto id : batch.requests)
    add(static_cast<int64_t>(id));
  add(batch.started);
  add(batch.ended);
}

void event_hash::on_delivered(const member& from, const member& to,
                              const header& what, timestamp when) {
  ++events_;
  add(from.name);
  add(to.name);
  add(what.t);
  add(when);
}

void event_hash::on_log(log_level, std::string_view line, timestamp when) {
  ++events_;
  add(line);
  add(when);
}

} // namespace millrace::simulator
