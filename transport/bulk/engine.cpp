// SPDX-License-Identifier: Apache-2.0
#include "transport/bulk/engine.hpp"

#include <algorithm>

namespace millrace {

namespace {

/// Interval between progress reports of a pull.
constexpr auto tell_again = 100ms;

constexpr auto too_many = "too many chunks were requested at once";

/// Compares two secrets in a time that does not depend on the position of a
/// difference.
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
                        std::shared_ptr<bulk_content> body, timestamp now) {
  auto before = std::exchange(offers_[content], {token, std::move(body)});
  for (auto& [link, ask] : before.asked)
    on_ask(link, ask, now);
}

void bulk_engine::withdraw(const std::string& content) {
  auto links = serving_.withdraw(content);
  if (auto offer = offers_.extract(content); !offer.empty())
    for (auto& [link, ask] : offer.mapped().asked)
      links.insert(link);
  for (auto& link : links)
    carrier_.refuse(link, {content, "the content is no longer offered"});
}

void bulk_engine::on_ask(const std::string& link, const bulk_ask& request,
                         timestamp now) {
  auto refuse = [&](const char* why) {
    carrier_.refuse(link, {request.content, why});
  };
  auto i = offers_.find(request.content);
  if (i == offers_.end() || !is_same(i->second.token, request.token))
    return refuse("no content is offered under that id and token");
  if (!i->second.content)
    return hold(i->second, link, request);
  auto& content = *i->second.content;
  if (request.head)
    return carrier_.give_head(link, {request.content}, content.head());
  if (request.chunk >= content.chunks())
    return refuse("the chunk number is beyond the last chunk");
  serve_queue::chunk_id what{request.content, request.chunk};
  auto there = content.has(request.chunk);
  if (!serving_.ask(link, what, request.rank, there))
    return refuse(too_many);
  if (!there && i->second.awaited.insert(request.chunk).second)
    content.when(request.chunk, [this, what,
                                 of = std::weak_ptr{i->second.content},
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

/// A chunk of an offered content will never arrive: withdraws the offer.
void bulk_engine::give_up(const std::string& content,
                          const std::shared_ptr<bulk_content>& body) {
  auto i = offers_.find(content);
  if (body && i != offers_.end() && i->second.content == body)
    withdraw(content);
}

/// Keeps a request until the offered content is known.
void bulk_engine::hold(offered& offer, const std::string& link,
                       const bulk_ask& request) {
  auto its = std::count_if(offer.asked.begin(), offer.asked.end(),
                           [&](auto& y) { return y.first == link; });
  if (static_cast<size_t>(its) < serving_.most_owed())
    offer.asked.emplace_back(link, request);
  else
    carrier_.refuse(link, {request.content, too_many});
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
    if (i == offers_.end()) // withdrawn meanwhile
      continue;
    auto chunk = i->second.content->chunk(what.chunk);
    if (chunk) {
      carrier_.give(link, {what.content, what.chunk}, std::move(*chunk));
      continue;
    }
    serving_.left(link);
    carrier_.refuse(link, {what.content, "the content failed verification"});
    withdraw(std::string{what.content});
  }
}

// -- getting ------------------------------------------------------------------

bulk_engine::pulled* bulk_engine::find_pull(const std::string& content) {
  auto i = pulls_.find(content);
  return i == pulls_.end() ? nullptr : &i->second;
}

void bulk_engine::pull(bulk_order order) {
  auto& mine = pulls_[order.content];
  mine.order = std::move(order);
  if (mine.queue) // more chunks are wanted
    want(mine);
  else if (mine.order.known)
    begin(mine, mine.order.known);
  else
    ask_more(mine);
}

void bulk_engine::begin(pulled& download,
                        std::shared_ptr<bulk_content> content) {
  download.content = std::move(content);
  download.queue.emplace(download.content->chunks());
  for (size_t i = 0; i < download.content->chunks(); ++i)
    if (download.content->has(i))
      download.queue->have(i);
  for (auto& [name, id] : download.ids)
    download.queue->add(
      id, {carrier_.window_of(name), download.sources.at(name).only});
  want(download);
}

void bulk_engine::want(pulled& download) {
  for (auto& range : download.order.wanted(*download.content))
    download.queue->want(range);
  if (download.queue->is_done())
    download.order.got(0);
  ask_more(download);
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

/// Ends the connection to a source that no pull uses.
void bulk_engine::leave_unused(const std::string& node) {
  auto used = std::any_of(pulls_.begin(), pulls_.end(), [&](auto& x) {
    return x.second.sources.contains(node);
  });
  if (!used)
    carrier_.leave(node);
}

void bulk_engine::send_ask(const pulled& download, const bulk_source& to,
                           bool head, uint64_t chunk) {
  carrier_.ask(
    to, {download.order.content, to.token, download.order.rank, head, chunk});
}

void bulk_engine::ask_more(pulled& download) {
  if (!download.queue)
    return ask_for_head(download);
  std::map<pull_queue::source_id, const bulk_source*> by_id;
  for (auto& [node, id] : download.ids)
    by_id[id] = &download.sources.at(node);
  for (auto& y : download.queue->next())
    send_ask(download, *by_id.at(y.from), false, y.chunk);
}

void bulk_engine::ask_for_head(pulled& download) {
  if (!download.asked_for_head.empty() || download.sources.empty())
    return;
  auto& [node, source] = *download.sources.begin();
  download.asked_for_head = node;
  send_ask(download, source, true, 0);
}

void bulk_engine::on_head(const std::string& node, const bulk_head& head,
                          const std::vector<shared_bytes>& pieces) {
  auto* mine = find_pull(head.content);
  if (mine == nullptr || mine->queue || mine->asked_for_head != node)
    return;
  auto content = mine->order.begin(pieces);
  if (!content)
    return lose(*mine, node, content.failure());
  begin(*mine, std::move(*content));
}

void bulk_engine::on_chunk(const std::string& node, const bulk_chunk& chunk,
                           const shared_bytes& content, timestamp now) {
  auto* mine = find_pull(chunk.content);
  if (mine == nullptr || !mine->queue)
    return;
  auto id = mine->ids.find(node);
  if (id == mine->ids.end() || !mine->queue->answered(id->second, chunk.chunk))
    return;
  auto taken = mine->content->put(chunk.chunk, content);
  if (!taken) { // a source of a wrong chunk gets no further requests
    mine->queue->lack(chunk.chunk);
    return lose(*mine, node, taken.failure());
  }
  mine->queue->have(chunk.chunk);
  ask_more(*mine);
  if (mine->queue->is_done() || now - mine->told >= tell_again) {
    mine->told = now;
    mine->order.got(mine->queue->missing());
  }
}

void bulk_engine::on_refusal(const std::string& node,
                             const bulk_refusal& answer) {
  if (auto* mine = find_pull(answer.content);
      mine != nullptr && mine->sources.contains(node))
    lose(*mine, node, {ec::unavailable, node + ": " + answer.why, {}});
}

void bulk_engine::on_source_lost(const std::string& node, const error& why) {
  for (auto& [content, x] : pulls_)
    if (x.sources.contains(node))
      lose(x, node, why);
}

void bulk_engine::lose(pulled& download, const std::string& node,
                       const error& why) {
  if (download.queue)
    download.queue->remove(download.ids.at(node));
  download.ids.erase(node);
  download.sources.erase(node);
  if (download.asked_for_head == node)
    download.asked_for_head.clear();
  leave_unused(node);
  download.order.lost(node, why);
  ask_more(download);
}

} // namespace millrace
