// SPDX-License-Identifier: Apache-2.0
#include "transport/bulk/engine.hpp"

#include <algorithm>

namespace millrace {

namespace {

/// Between two words on how far a pull is.
constexpr auto tell_again = 100ms;

constexpr auto too_many = "too many chunks were asked for at once";

/// Whether two secrets are the same, in a time that says nothing of where they
/// differ.
bool is_same(const std::string& x, const std::string& y) {
  if (x.size() != y.size())
    return false;
  unsigned char differ = 0;
  for (size_t i = 0; i < x.size(); ++i)
    differ |= static_cast<unsigned char>(x[i] ^ y[i]);
  return differ == 0;
}

} // namespace

// -- giving -------------------------------------------------------------------

void bulk_engine::offer(const std::string& content, const std::string& token,
                        std::shared_ptr<bulk_content> x, timestamp now) {
  auto before = std::exchange(offers_[content], {token, std::move(x)});
  for (auto& [link, ask] : before.asked)
    on_ask(link, ask, now);
}

void bulk_engine::withdraw(const std::string& content) {
  auto links = serving_.withdraw(content);
  if (auto offer = offers_.extract(content); !offer.empty())
    for (auto& [link, ask] : offer.mapped().asked)
      links.insert(link);
  for (auto& link : links)
    carrier_.refuse(link, {content, "it is not kept here any more"});
}

void bulk_engine::on_ask(const std::string& link, const bulk_ask& x,
                         timestamp now) {
  auto refuse = [&](const char* why) {
    carrier_.refuse(link, {x.content, why});
  };
  auto i = offers_.find(x.content);
  if (i == offers_.end() || !is_same(i->second.token, x.token))
    return refuse("there is no such content here for who says that token");
  if (!i->second.content)
    return hold(i->second, link, x);
  auto& content = *i->second.content;
  if (x.head)
    return carrier_.give_head(link, {x.content}, content.head());
  if (x.chunk >= content.chunks())
    return refuse("it has not so many chunks");
  serve_queue::chunk_id what{x.content, x.chunk};
  auto there = content.has(x.chunk);
  if (!serving_.ask(link, what, x.rank, there))
    return refuse(too_many);
  if (!there && i->second.awaited.insert(x.chunk).second)
    content.when(x.chunk, [this, what, of = std::weak_ptr{i->second.content},
                           post = carrier_.to_thread()](auto& came) {
      if (came)
        post([this, what] { on_there(what); });
      else
        post([this, what, of] { give_up(what.content, of.lock()); });
    });
  serve(now);
}

void bulk_engine::on_there(const serve_queue::chunk_id& what) {
  if (auto i = offers_.find(what.content); i != offers_.end())
    i->second.awaited.erase(what.chunk);
  serving_.there(what);
}

/// Some of what is offered will never be there.
void bulk_engine::give_up(const std::string& content,
                          const std::shared_ptr<bulk_content>& x) {
  auto i = offers_.find(content);
  if (x && i != offers_.end() && i->second.content == x)
    withdraw(content);
}

/// Until it is known what to answer.
void bulk_engine::hold(offered& offer, const std::string& link,
                       const bulk_ask& x) {
  auto its = std::count_if(offer.asked.begin(), offer.asked.end(),
                           [&](auto& y) { return y.first == link; });
  if (static_cast<size_t>(its) < serving_.most_owed())
    offer.asked.emplace_back(link, x);
  else
    carrier_.refuse(link, {x.content, too_many});
}

void bulk_engine::on_left(const std::string& link, timestamp now) {
  serving_.left(link);
  serve(now);
}

void bulk_engine::on_link_lost(const std::string& link) {
  serving_.forget(link);
  for (auto& [content, offer] : offers_)
    std::erase_if(offer.asked, [&](auto& x) { return x.first == link; });
}

void bulk_engine::serve(timestamp now) {
  while (auto next = serving_.next(now, chunk_bytes)) {
    auto& [link, what] = *next;
    auto i = offers_.find(what.content);
    if (i == offers_.end()) // it was withdrawn
      continue;
    auto chunk = i->second.content->chunk(what.chunk);
    if (chunk) {
      carrier_.give(link, {what.content, what.chunk}, std::move(*chunk));
      continue;
    }
    serving_.left(link);
    carrier_.refuse(link, {what.content, "it is broken here"});
    withdraw(std::string{what.content});
  }
}

// -- getting ------------------------------------------------------------------

bulk_engine::pulled* bulk_engine::find_pull(const std::string& content) {
  auto i = pulls_.find(content);
  return i == pulls_.end() ? nullptr : &i->second;
}

void bulk_engine::pull(bulk_order x) {
  auto& mine = pulls_[x.content];
  mine.order = std::move(x);
  if (mine.queue) // more is wanted of it
    want(mine);
  else if (mine.order.known)
    begin(mine, mine.order.known);
  else
    ask_more(mine);
}

void bulk_engine::begin(pulled& x, std::shared_ptr<bulk_content> content) {
  x.content = std::move(content);
  x.queue.emplace(x.content->chunks());
  for (size_t i = 0; i < x.content->chunks(); ++i)
    if (x.content->has(i))
      x.queue->have(i);
  for (auto& [name, id] : x.ids)
    x.queue->add(id, {carrier_.window_of(name), x.sources.at(name).only});
  want(x);
}

void bulk_engine::want(pulled& x) {
  for (auto& range : x.order.wanted(*x.content))
    x.queue->want(range);
  if (x.queue->is_done())
    x.order.got(0);
  ask_more(x);
}

void bulk_engine::pull_from(const std::string& content,
                            std::vector<bulk_source> sources) {
  auto* x = find_pull(content);
  if (x == nullptr)
    return;
  std::map<std::string, bulk_source> named;
  for (auto& source : sources)
    named.emplace(source.node, std::move(source));
  auto before = std::exchange(x->sources, named);
  for (auto& [node, source] : before)
    if (auto i = named.find(node); i == named.end() || !(i->second == source)) {
      if (x->queue)
        x->queue->remove(x->ids[node]);
      x->ids.erase(node);
      if (x->asked_for_head == node)
        x->asked_for_head.clear();
      leave_unused(node);
    }
  for (auto& [node, source] : named)
    if (!x->ids.contains(node)) {
      x->ids[node] = ++last_source_;
      if (x->queue)
        x->queue->add(last_source_, {carrier_.window_of(node), source.only});
    }
  ask_more(*x);
}

void bulk_engine::stop(const std::string& content) {
  auto gone = pulls_.extract(content);
  if (gone.empty())
    return;
  for (auto& [node, source] : gone.mapped().sources)
    leave_unused(node);
}

void bulk_engine::clear() {
  while (!offers_.empty())
    withdraw(std::string{offers_.begin()->first});
  while (!pulls_.empty())
    stop(std::string{pulls_.begin()->first});
}

/// Where nothing is asked any more nobody need be connected.
void bulk_engine::leave_unused(const std::string& node) {
  auto used = std::any_of(pulls_.begin(), pulls_.end(), [&](auto& x) {
    return x.second.sources.contains(node);
  });
  if (!used)
    carrier_.leave(node);
}

void bulk_engine::send_ask(const pulled& x, const bulk_source& to, bool head,
                           uint64_t chunk) {
  carrier_.ask(to, {x.order.content, to.token, x.order.rank, head, chunk});
}

void bulk_engine::ask_more(pulled& x) {
  if (!x.queue)
    return ask_for_head(x);
  std::map<pull_queue::source_id, const bulk_source*> by_id;
  for (auto& [node, id] : x.ids)
    by_id[id] = &x.sources.at(node);
  for (auto& y : x.queue->next())
    send_ask(x, *by_id.at(y.from), false, y.chunk);
}

void bulk_engine::ask_for_head(pulled& x) {
  if (!x.asked_for_head.empty() || x.sources.empty())
    return;
  auto& [node, source] = *x.sources.begin();
  x.asked_for_head = node;
  send_ask(x, source, true, 0);
}

void bulk_engine::on_head(const std::string& node, const bulk_head& x,
                          const std::vector<shared_bytes>& pieces) {
  auto* mine = find_pull(x.content);
  if (mine == nullptr || mine->queue || mine->asked_for_head != node)
    return;
  auto content = mine->order.begin(pieces);
  if (!content)
    return lose(*mine, node, content.failure());
  begin(*mine, std::move(*content));
}

void bulk_engine::on_chunk(const std::string& node, const bulk_chunk& x,
                           const shared_bytes& content, timestamp now) {
  auto* mine = find_pull(x.content);
  if (mine == nullptr || !mine->queue)
    return;
  auto id = mine->ids.find(node);
  if (id == mine->ids.end() || !mine->queue->answered(id->second, x.chunk))
    return;
  auto taken = mine->content->put(x.chunk, content);
  if (!taken) { // who gives what is wrong once is asked for nothing more
    mine->queue->lack(x.chunk);
    return lose(*mine, node, taken.failure());
  }
  mine->queue->have(x.chunk);
  ask_more(*mine);
  if (mine->queue->is_done() || now - mine->told >= tell_again) {
    mine->told = now;
    mine->order.got(mine->queue->missing());
  }
}

void bulk_engine::on_refusal(const std::string& node, const bulk_refusal& x) {
  if (auto* mine = find_pull(x.content);
      mine != nullptr && mine->sources.contains(node))
    lose(*mine, node, {ec::unavailable, node + ": " + x.why, {}});
}

void bulk_engine::on_source_lost(const std::string& node, const error& why) {
  for (auto& [content, x] : pulls_)
    if (x.sources.contains(node))
      lose(x, node, why);
}

void bulk_engine::lose(pulled& x, const std::string& node, const error& why) {
  if (x.queue)
    x.queue->remove(x.ids.at(node));
  x.ids.erase(node);
  x.sources.erase(node);
  if (x.asked_for_head == node)
    x.asked_for_head.clear();
  leave_unused(node);
  x.order.lost(node, why);
  ask_more(x);
}

} // namespace millrace
