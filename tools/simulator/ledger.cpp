// SPDX-License-Identifier: Apache-2.0
#include "simulator/ledger.hpp"

#include <iterator>

#include "simulator/message_body.hpp"
#include "simulator/model.hpp"
#include "transport/messages/replica.hpp"

namespace millrace::simulator {

const ledger::entry* ledger::find(uint64_t id) const {
  auto i = requests_.find(id);
  return i == requests_.end() ? nullptr : &i->second;
}

ledger::entry* ledger::known(uint64_t id) {
  auto i = requests_.find(id);
  return i == requests_.end() ? nullptr : &i->second;
}

void ledger::reading_list::add(timestamp read, uint64_t id, uint64_t bytes) {
  if (bytes_.emplace(std::pair{read, id}, bytes).second)
    sum_ += bytes;
}

void ledger::reading_list::remove(timestamp read, uint64_t id) {
  auto i = bytes_.find({read, id});
  if (i == bytes_.end())
    return;
  sum_ -= i->second;
  bytes_.erase(i);
}

// Subtracts the requests read at `when`; these are few.

size_t ledger::reading_list::count_before(timestamp when) const {
  auto later = std::distance(bytes_.lower_bound({when, 0}), bytes_.end());
  return bytes_.size() - static_cast<size_t>(later);
}

uint64_t ledger::reading_list::bytes_before(timestamp when) const {
  auto out = sum_;
  for (auto i = bytes_.lower_bound({when, 0}); i != bytes_.end(); ++i)
    out -= i->second;
  return out;
}

size_t ledger::held(const std::string& gateway, timestamp when) const {
  auto i = held_.find(gateway);
  return i == held_.end() ? 0 : i->second.count_before(when);
}

uint64_t ledger::held_bytes(const std::string& gateway, timestamp when) const {
  auto i = held_.find(gateway);
  return i == held_.end() ? 0 : i->second.bytes_before(when);
}

size_t ledger::waiting(const std::string& gateway, const std::string& model,
                       timestamp when) const {
  auto i = waiting_.find({gateway, model});
  return i == waiting_.end() ? 0 : i->second.count_before(when);
}

void ledger::on_sent(const sent_request& request) {
  requests_[request.id].sent = request;
}

void ledger::on_read(const member&, uint64_t id, timestamp when) {
  auto* x = known(id);
  if (x == nullptr || x->cut_short)
    return;
  x->read = when;
  held_[x->sent.gateway].add(when, id, x->sent.bytes);
  if (!x->sent.model.empty())
    waiting_[{x->sent.gateway, x->sent.model}].add(when, id, 0);
}

void ledger::on_cancel_read(const member&, uint64_t id, timestamp when) {
  if (auto* x = known(id); x != nullptr && x->open())
    x->cancelled = when;
}

void ledger::close(uint64_t id, const entry& request) {
  if (!request.read)
    return;
  held_[request.sent.gateway].remove(*request.read, id);
  waiting_[{request.sent.gateway, request.sent.model}].remove(*request.read,
                                                              id);
}

void ledger::on_answered(const member&, uint64_t id, const infer_reply&,
                         timestamp when) {
  auto* x = known(id);
  if (x == nullptr)
    return;
  if (!x->settled)
    x->settled = when;
  close(id, *x);
}

void ledger::on_reply(const session&, uint64_t id, const infer_reply& reply,
                      timestamp) {
  auto* r = known(id);
  if (r == nullptr)
    return;
  ++r->answers;
  r->status = reply.status;
  r->text = reply.error;
}

void ledger::on_cut_short(uint64_t id, timestamp) {
  auto& x = requests_.at(id);
  x.cut_short = true;
  close(id, x);
}

void ledger::on_posted(const member&, const member&, const wire_message& what,
                       timestamp) {
  batch_.clear();
  number_ = 0;
  if (auto x = body_of<run_batch>(what)) {
    if (x->through && !x->through->visits.empty())
      return; // passed from stage to stage
    for (auto& item : x->items)
      batch_.push_back(request_of(item.inputs));
    number_ = x->through ? x->id : 0;
    note_posted({what.head.from, x->id});
  } else if (auto y = body_of<batch_done>(what)) {
    note_done({what.head.to, y->id}, y->status);
  }
}

void ledger::note_posted(const batch_name& name) {
  batches_[name] = batch_;
  for (auto id : batch_)
    if (auto* x = known(id)) {
      ++x->posted;
      if (x->read)
        waiting_[{x->sent.gateway, x->sent.model}].remove(*x->read, id);
    }
}

void ledger::note_done(const batch_name& name, ec status) {
  auto i = batches_.find(name);
  if (i == batches_.end())
    return;
  for (auto id : i->second)
    if (auto* x = known(id); x != nullptr && status == ec::unavailable)
      --x->posted; // the replica returned the batch
  batches_.erase(i);
}

void ledger::on_given(const given_batch& batch, timestamp) {
  for (auto id : batch.requests)
    if (auto* r = known(id); r != nullptr && batch.begins)
      ++r->given;
}

void ledger::on_returned(const given_batch& batch, timestamp) {
  for (auto id : batch.requests)
    if (auto* r = known(id); r != nullptr && batch.begins)
      --r->given;
}

} // namespace millrace::simulator
