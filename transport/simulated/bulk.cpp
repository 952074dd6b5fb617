// SPDX-License-Identifier: Apache-2.0
#include "transport/simulated/bulk.hpp"

#include <numeric>

namespace millrace {

namespace {

/// Approximate bytes of a request, or of an answer without its content.
constexpr size_t words = 200;

} // namespace

simulated_bulk::simulated_bulk(virtual_process& process, simulated_network& net,
                               host_number host, std::string node,
                               simulated_bulk_hosts& hosts,
                               store_sources::stores stores)
  : process_(process),
    net_(net),
    host_(host),
    node_(std::move(node)),
    hosts_(hosts),
    engine_(*this, {}),
    stores_(std::move(stores), engine_) {
}

std::shared_ptr<simulated_bulk> simulated_bulk::make(
  virtual_process& process, simulated_network& net, host_number host,
  std::string node, simulated_bulk_hosts& hosts, store_sources::stores stores) {
  std::shared_ptr<simulated_bulk> out{new simulated_bulk{
    process, net, host, std::move(node), hosts, std::move(stores)}};
  hosts.by_address_[out->address()] = out.get();
  return out;
}

void simulated_bulk::vanish() {
  if (std::exchange(vanished_, true))
    return;
  hosts_.by_address_.erase(address());
  for (auto& [node, x] : std::exchange(sources_, {}))
    close(x);
  for (auto& [link, x] : std::exchange(links_, {}))
    close(x);
}

timestamp simulated_bulk::now() const {
  return process_.local(net_.world().now());
}

/// Runs a job after the current event, in which the engine may be active.
template <class F>
void simulated_bulk::run(F f) {
  net_.world().soon(process_, [this, f = std::move(f)]() mutable {
    if (vanished_)
      return;
    f();
    go_on();
  });
}

/// As the thread of the production port does after each event.
void simulated_bulk::go_on() {
  engine_.on_tick(now());
  auto due = process_.global(engine_.next_due());
  if (due >= armed_)
    return;
  armed_ = due;
  net_.world().at(due, process_, [this] {
    armed_ = far_future;
    if (!vanished_)
      go_on();
  });
}

// -- bulk_port ----------------------------------------------------------------

void simulated_bulk::offer(const std::string& content, const std::string& token,
                           std::shared_ptr<bulk_content> body) {
  run([=, this] { engine_.offer(content, token, body, now()); });
}

void simulated_bulk::withdraw(const std::string& content) {
  run([=, this] { engine_.withdraw(content); });
}

void simulated_bulk::pull(bulk_order order) {
  run([this, x = std::move(order)] { engine_.pull(x); });
}

void simulated_bulk::pull_from(const std::string& content,
                               std::vector<bulk_source> sources) {
  run([=, this] { engine_.pull_from(content, sources); });
}

void simulated_bulk::stop(const std::string& content) {
  run([=, this] { engine_.stop(content); });
}

void simulated_bulk::clear() {
  run([this] { engine_.clear(); });
}

void simulated_bulk::forget(const std::string& node) {
  run([=, this] {
    for (auto& [link, x] : std::map{links_})
      if (x->asker->node_ == node)
        hear_of_end(x);
    if (auto i = sources_.find(node); i != sources_.end())
      hear_of_end(i->second);
  });
}

// -- connections --------------------------------------------------------------

/// This side ends the connection; the other side learns it as soon as it can.
void simulated_bulk::close(const shared_connection& connection) {
  auto other =
    connection->asker.get() == this ? connection->asked : connection->asker;
  connection->there.reset(); // with all bytes on their way
  connection->back.reset();
  if (other->vanished_ || net_.blocked(host_, other->host_))
    return;
  net_.world().at(net_.world().now() + net_.latency(host_, other->host_),
                  other->process_, [other, connection] {
                    if (!other->vanished_)
                      other->hear_of_end(connection);
                  });
}

/// The other side has ended the connection.
void simulated_bulk::hear_of_end(const shared_connection& connection) {
  connection->there.reset();
  connection->back.reset();
  if (connection->asked.get() == this) {
    if (auto i = links_.find(connection->link);
        i != links_.end() && i->second == connection) {
      links_.erase(i);
      engine_.on_link_lost(connection->link);
    }
    return;
  }
  auto node = connection->asked->node_;
  if (auto i = sources_.find(node);
      i != sources_.end() && i->second == connection) {
    sources_.erase(i);
    engine_.on_source_lost(
      node, {ec::unavailable, node + ": the connection was lost", {}});
  }
}

/// A node requests on one connection at a time.
void simulated_bulk::take_link(const shared_connection& connection) {
  if (links_.contains(connection->link))
    return;
  for (auto& [link, y] : std::map{links_})
    if (y->asker->node_ == connection->asker->node_)
      hear_of_end(y);
  links_[connection->link] = connection;
}

// -- bulk_carrier -------------------------------------------------------------

bulk_carrier::poster simulated_bulk::to_thread() {
  return [to = weak_from_this()](std::function<void()> job) {
    if (auto x = to.lock())
      x->run(std::move(job));
  };
}

void simulated_bulk::ask(const bulk_source& whom, const bulk_ask& request) {
  if (stores_.has(whom.node))
    return stores_.ask(whom, request, to_thread(), [this] { return now(); });
  auto& mine = sources_[whom.node];
  if (!mine) {
    auto i = hosts_.by_address_.find(whom.address);
    if (i == hosts_.by_address_.end()) {
      sources_.erase(whom.node);
      return run([this, node = whom.node] {
        engine_.on_source_lost(
          node,
          {ec::unavailable, node + ": no bulk endpoint at that address", {}});
      });
    }
    auto asked = i->second->shared_from_this();
    mine = std::make_shared<connection>(connection{
      node_ + " " + std::to_string(++connections_), shared_from_this(), asked,
      net_.open(host_, asked->host_), net_.open(asked->host_, host_)});
  }
  if (!mine->there)
    return; // the connection has ended, and this side has not learned it yet
  mine->there->send(words, &mine->asked->process_, [mine, request] {
    auto& asked = mine->asked;
    if (asked->vanished_)
      return;
    asked->take_link(mine);
    asked->engine_.on_ask(mine->link, request, asked->now());
    asked->go_on();
  });
}

void simulated_bulk::leave(const std::string& node) {
  if (auto x = sources_.extract(node); !x.empty())
    close(x.mapped());
}

/// Sends over the connection of the link, if it still exists.
template <class F>
void simulated_bulk::answer(const std::string& link, size_t bytes, F f) {
  auto i = links_.find(link);
  if (i == links_.end() || !i->second->back)
    return;
  auto& x = i->second;
  x->back->send(words + bytes, &x->asker->process_, [x, f = std::move(f)] {
    if (auto y = x->asker->sources_.find(x->asked->node_);
        y != x->asker->sources_.end() && y->second == x)
      f(*x);
  });
}

void simulated_bulk::give(const std::string& link, const bulk_chunk& what,
                          shared_bytes content) {
  auto size = content.size();
  answer(link, size, [what, content = std::move(content)](auto& x) {
    auto &from = x.asked, &to = x.asker;
    to->engine_.on_chunk(
      from->node_, what,
      to->hosts_.wire_(from->node_, to->node_, what, content), to->now());
    if (!from->vanished_)
      from->run(
        [from, link = x.link] { from->engine_.on_left(link, from->now()); });
  });
}

void simulated_bulk::give_head(const std::string& link, const bulk_head& what,
                               std::vector<shared_bytes> pieces) {
  auto bytes =
    std::accumulate(pieces.begin(), pieces.end(), size_t{0},
                    [](size_t n, auto& piece) { return n + piece.size(); });
  answer(link, bytes, [what, pieces = std::move(pieces)](auto& x) {
    x.asker->engine_.on_head(x.asked->node_, what, pieces);
  });
}

void simulated_bulk::refuse(const std::string& link, const bulk_refusal& what) {
  answer(link, 0, [what](auto& x) {
    x.asker->engine_.on_refusal(x.asked->node_, what);
  });
}

} // namespace millrace
