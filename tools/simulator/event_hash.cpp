// SPDX-License-Identifier: Apache-2.0
#include "simulator/event_hash.hpp"

#include "simulator/model.hpp"

namespace millrace::simulator {

void event_hash::add(std::string_view x) {
  for (auto c : x)
    hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
}

void event_hash::add(int64_t x) {
  hash_ = (hash_ ^ static_cast<uint64_t>(x)) * 0x100000001b3;
  hash_ ^= hash_ >> 29;
}

void event_hash::on_sent(const sent_request& x) {
  ++events_;
  add(static_cast<int64_t>(x.id));
  add(x.when);
  add(x.gateway);
  add(x.model);
}

void event_hash::on_reply(const session& to, uint64_t id, const infer_reply& x,
                          timestamp when) {
  ++events_;
  add(to.connection);
  add(static_cast<int64_t>(id));
  add(to_string(x.status));
  add(x.replica);
  add(x.queue.count());
  add(x.execute.count());
  add(when);
}

void event_hash::on_cut_short(uint64_t id, timestamp when) {
  ++events_;
  add(static_cast<int64_t>(id));
  add(when);
}

void event_hash::on_executed(const executed_batch& x) {
  ++events_;
  add(x.where.node);
  add(x.where.device);
  for (auto id : x.requests)
    add(static_cast<int64_t>(id));
  add(x.started);
  add(x.ended);
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
