// SPDX-License-Identifier: Apache-2.0
#include "actors/chain/relay_state.hpp"

#include <algorithm>
#include <functional>

#include "models/travelling_bundle.hpp"
#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "transport/bulk/bundle_content.hpp"
#include "transport/describe.hpp"

namespace millrace {

namespace {

/// Changes that follow each other are reported together.
constexpr auto report_delay = 20ms;

/// Timeout for the cache to open a bundle of the disk.
constexpr caf::timespan bundle_patience = 60min;

/// A fetch fails after longest_quiet without a chunk, if it also had no source
/// for least_alone. The second time is short, so that receivers behind a failed
/// one fail soon after it.
constexpr auto longest_quiet = 60s;
constexpr auto least_alone = 15s;

} // namespace

void relay_state::start(relay_actor::stateful_pointer<relay_state> self,
                        relay_options options) {
  self_ = self;
  options_ = std::move(options);
  set_common_handlers(self);
  sources_lost_ = options_.counts->sources_lost();
  options_.port->clear(); // orders of a crashed relay
  options_.net->subscribe(caf::actor_cast<caf::strong_actor_ptr>(self->ctrl()),
                          "");
  if (auto cache = options_.net->resolve("./cache")) // from before a crash
    self->request(caf::actor_cast<cache_actor>(cache), 5s, get_contents{})
      .then([this](const contents_here& x) { adopt(x); },
            [](const caf::error&) { /* the cache sends bundle_list */ });
  report_soon();
}

timestamp relay_state::now() const {
  return self_->clock().now();
}

// -- what this host has -------------------------------------------------------

void relay_state::on_bundle_list(const bundle_list& message) {
  for (auto& [id, c] : contents_)
    c.here = c.lasts = false;
  for (auto* some : {&message.models, &message.kept})
    for (auto& info : *some)
      if (!info.content.empty()) {
        auto& c = contents_[info.content];
        c.info = info;
        c.here = true;
        c.lasts |= some == &message.models;
      }
  for (auto& [id, c] : contents_)
    if (!c.here && !c.wants && c.bytes && c.bytes->weights_file
        && c.bytes->weights_file->is_given_up()) { // corrupt on the disk
      options_.port->withdraw(id);
      c = {};
    }
  std::erase_if(contents_, [](auto& entry) {
    auto& c = entry.second;
    return !c.here && !c.bytes && !c.wants;
  });
  for (auto& [id, c] : contents_)
    if (c.held && c.here && !c.bytes) // the cache may have restarted
      on_pin_content({id, true});
  report_soon();
}

/// Offers the contents that a crashed relay had fetched.
void relay_state::adopt(const contents_here& message) {
  on_bundle_list(message.disk);
  for (auto& y : message.memory) {
    auto& c = contents_[y.content];
    if (c.bytes || c.wants)
      continue;
    c.info = y.info;
    c.bytes = y.bytes;
    c.layers = y.layers;
    c.found = true;
    offer(y.content, c);
  }
}

contents_here relay_state::on_get_contents() const {
  contents_here out;
  out.last = pinned_contents_;
  for (auto& [id, c] : contents_)
    if (c.bytes || c.wants)
      out.memory.push_back({id, c.info, c.bytes, c.layers, !c.wants && c.here});
  return out;
}

/// Lets other hosts request a content, also before it has arrived: the whole
/// chain stands when its first chunk arrives.
void relay_state::offer(const std::string& id, content& c) {
  std::shared_ptr<bulk_content> travels;
  if (c.bytes) {
    auto made = make_bulk_content(c.bytes, broken_teller(id, *c.bytes));
    if (!made)
      return;
    travels = std::move(*made);
  }
  if (c.token.empty())
    c.token = options_.draw_token();
  options_.port->offer(id, c.token, std::move(travels));
}

std::function<void(const error&)>
relay_state::broken_teller(const std::string& id, const bundle& opened) {
  return [id, folder = opened.directory,
          tell = teller<content_broken>(self_)](auto& why) {
    tell({id, folder, std::make_shared<const error>(why)});
  };
}

/// The cache answers with the bundles that are left.
void relay_state::on_broken(const content_broken& message) {
  if (auto cache = options_.net->resolve("./cache"))
    self_->send(caf::actor_cast<cache_actor>(cache), message);
}

void relay_state::on_pin_content(const pin_content& message) {
  auto i = contents_.find(message.content);
  if (i == contents_.end())
    return;
  auto& c = i->second;
  c.held = message.on;
  if (!message.on)
    return close(message.content, c);
  auto cache = options_.net->resolve("./cache");
  if (c.bytes || !cache)
    return;
  fetch all{c.info.model,    c.info.version,          {},
            message.content, transfer_rank::prefetch, c.info.bytes};
  self_->request(caf::actor_cast<cache_actor>(cache), bundle_patience, all)
    .then([this, id = message.content](const fetched& y) { on_held(id, y); },
          [id = message.content, model = c.info.model](const caf::error& why) {
            log_event(log_level::warning, "relay", "cannot_pin",
                      {{"model", model},
                       {"content", id},
                       {"error", to_string(from_caf(why))}});
          });
}

void relay_state::on_pinned_contents(const pinned_contents& message) {
  pinned_contents_ = message;
  if (auto cache = options_.net->resolve("./cache"))
    self_->send(caf::actor_cast<cache_actor>(cache), message);
}

/// The cache needs the memory; receivers of this host get another source.
void relay_state::on_drop_content(const drop_content& message) {
  auto i = contents_.find(message.content);
  if (i == contents_.end())
    return;
  if (i->second.wants)
    return fail(message.content, i->second,
                {ec::cancelled, "no replica here needs it any longer", {}});
  if (i->second.here) { // still usable from the disk
    close(message.content, i->second);
    return i->second.held ? on_pin_content({message.content, true}) : void();
  }
  options_.port->stop(message.content);
  options_.port->withdraw(message.content);
  contents_.erase(i);
  report_soon();
}

void relay_state::on_held(const std::string& id, const fetched& message) {
  auto i = contents_.find(id);
  if (i == contents_.end() || !i->second.held)
    return;
  i->second.bytes = message.content;
  i->second.found = true;
  offer(id, i->second);
  report_soon();
}

/// Closes a content that is on the disk and not fetched.
void relay_state::close(const std::string& id, content& c) {
  if (!c.here || c.wants || !c.bytes)
    return;
  c.bytes = nullptr;
  c.found = false;
  c.token.clear();
  options_.port->withdraw(id);
  report_soon();
}

// -- contents in transfer -----------------------------------------------------

/// The current sources, as text.
std::string relay_state::giver_of(const content& c) {
  return c.from.empty() ? "other hosts"
                        : joined(c.from, " + ", std::identity{});
}

/// Whether all chunks of the layers are here.
bool relay_state::has(const content& c, const layer_range& layers) {
  return c.found && travelling::has(*c.bytes, layers.first, layers.last);
}

caf::result<fetched> relay_state::on_fetch(const fetch& request) {
  if (auto i = contents_.find(request.content);
      i != contents_.end() && has(i->second, request.layers))
    return fetched{i->second.bytes, i->second.info, "memory"};
  auto promise = self_->make_response_promise<fetched>();
  auto& c = contents_[request.content];
  c.info.model = request.model;
  c.info.version = request.version;
  if (!c.bytes)
    c.info.bytes = request.bytes;
  c.rank = c.wants ? std::min(c.rank, request.rank) : request.rank;
  if (!c.wants && !c.bytes)
    c.layers = request.layers;
  else if (c.layers != request.layers)
    c.layers = {}; // several parts: fetch all layers
  if (!std::exchange(c.wants, true))
    c.quiet = now();
  if (c.found)
    promise.deliver(fetched{c.bytes, c.info, giver_of(c)});
  else
    c.waiting.push_back(promise);
  if (!c.bytes)
    offer(request.content, c);
  pull(request.content, c);
  report_soon();
  return promise;
}

void relay_state::pull(const std::string& id, content& c) {
  c.pull = ++pulls_;
  bulk_order order;
  order.content = id;
  order.rank = c.rank;
  if (c.bytes)
    if (auto known = make_bulk_content(c.bytes, broken_teller(id, *c.bytes)))
      order.known = std::move(*known);
  // `begin` sets it, `wanted` reads it, in the same thread.
  auto made = std::make_shared<std::shared_ptr<const bundle>>(c.bytes);
  order.begin = [id, made, layers = c.layers, memory = options_.memory,
                 tell = teller<content_begun>(self_),
                 tell_found = teller<content_found>(self_)](
                  auto& head) -> result<std::shared_ptr<bulk_content>> {
    auto fresh = travelling::begin(id, head, memory);
    if (!fresh)
      return fresh.failure();
    auto x = std::make_shared<bundle>(std::move(*fresh));
    *made = x;
    tell({id, x});
    travelling::find_weights(
      x, layers.first, layers.last, [id, tell_found](const result<void>& y) {
        tell_found(
          {id, y ? nullptr : std::make_shared<const error>(y.failure())});
      });
    return make_bulk_content(std::move(x), [](auto&) { /* not on the disk */ });
  };
  order.wanted = [made, layers = c.layers](auto&) {
    return travelling::chunks_for(**made, layers.first, layers.last);
  };
  order.got = [id, pull = c.pull,
               tell = teller<content_got>(self_)](size_t missing) {
    tell({id, missing, pull});
  };
  order.lost = [id, tell = teller<content_lost>(self_)](auto& node, auto& why) {
    tell({id, node, std::make_shared<const error>(why)});
  };
  options_.port->pull(std::move(order));
}

void relay_state::on_begun(const content_begun& message) {
  auto i = contents_.find(message.content);
  if (i == contents_.end())
    return;
  auto& c = i->second;
  c.bytes = message.bytes;
  c.found = false;
  c.info = describe(*c.bytes, {});
  c.missing = 0; // until the next content_got
  for (auto& some :
       travelling::chunks_for(*c.bytes, c.layers.first, c.layers.last))
    c.missing += some.size();
  offer(message.content, c);
  report_soon();
}

void relay_state::on_found(const content_found& message) {
  auto i = contents_.find(message.content);
  if (i == contents_.end() || !i->second.bytes)
    return;
  auto& c = i->second;
  if (message.why)
    return fail(message.content, c, *message.why);
  c.found = true;
  for (auto& promise : std::exchange(c.waiting, {}))
    promise.deliver(fetched{c.bytes, c.info, giver_of(c)});
}

/// Ends a fetch with an error.
void relay_state::fail(const std::string& id, content& c, const error& why) {
  for (auto& promise : std::exchange(c.waiting, {}))
    promise.deliver(to_caf(why));
  if (c.bytes && c.bytes->weights_file)
    c.bytes->weights_file->give_up(why);
  options_.port->stop(id);
  options_.port->withdraw(id);
  content anew;
  anew.info = c.info;
  anew.here = c.here;
  anew.lasts = c.lasts;
  c = std::move(anew);
  if (!c.here)
    contents_.erase(id);
  report_soon();
}

void relay_state::give_up_alone() {
  std::vector<std::string> alone;
  for (auto& [id, c] : contents_)
    if (c.wants && c.from.empty() && c.alone != far_future
        && now() - c.alone >= least_alone && now() - c.quiet >= longest_quiet)
      alone.push_back(id);
  for (auto& id : alone) {
    auto& c = contents_.at(id);
    auto why = c.last_loss.empty() ? "" : "; the last: " + c.last_loss;
    fail(id, c,
         {ec::unavailable, "no host has sent it for a minute" + why, {}});
  }
}

void relay_state::on_got(const content_got& message) {
  auto i = contents_.find(message.content);
  if (i == contents_.end() || !i->second.wants
      || message.pull != i->second.pull)
    return;
  auto& c = i->second;
  c.missing = message.missing;
  c.quiet = now();
  c.alone = far_future;
  c.last_loss.clear();
  if (c.missing == 0) {
    c.from.clear();
    c.wants = false;
    options_.port->stop(message.content);
    log_event(log_level::info, "relay", "arrived",
              {{"model", c.info.model}, {"content", message.content}});
  }
  report_soon();
}

void relay_state::on_lost(const content_lost& message) {
  auto i = contents_.find(message.content);
  if (i == contents_.end())
    return;
  std::erase(i->second.from, message.node);
  sources_lost_->add();
  auto& text = message.why->text; // may begin with the node's name
  i->second.last_loss =
    text.starts_with(message.node) ? text : message.node + ": " + text;
  log_event(log_level::warning, "relay", "source_lost",
            {{"model", i->second.info.model},
             {"node", message.node},
             {"error", message.why->text}});
  report_soon();
}

void relay_state::on_set_sources(const set_sources& message) {
  auto i = contents_.find(message.content);
  if (i == contents_.end() || !i->second.wants)
    return;
  std::vector<bulk_source> sources;
  i->second.from.clear();
  i->second.after = message.after;
  for (auto& y : message.from) {
    i->second.from.push_back(y.node);
    sources.push_back({y.node, y.address, y.token, y.only});
  }
  options_.port->pull_from(message.content, std::move(sources));
  report_soon();
}

// -- chain controllers --------------------------------------------------------

void relay_state::on_peer_up(const peer_up& message) {
  if (!message.peer.has_role("controller"))
    return;
  controllers_.insert(message.peer.name);
  report_soon();
}

void relay_state::on_peer_down(const peer_down& message) {
  controllers_.erase(message.peer.name);
  options_.port->forget(message.peer.name);
}

/// The first change after a while is reported at once.
void relay_state::report_soon() {
  alarm_.set(self_, std::max(now(), reported_ + report_delay));
}

void relay_state::on_tick() {
  if (!alarm_.rings(now()))
    return;
  give_up_alone();
  report();
  auto waits = false;
  for (auto& [id, c] : contents_) {
    if (!c.after.empty())
      c.quiet = now();
    if (!c.wants || !c.after.empty())
      c.alone = far_future;
    else if (c.from.empty() && c.alone == far_future)
      c.alone = now();
    waits |= c.alone != far_future;
  }
  if (waits)
    alarm_.set(self_, now() + least_alone);
}

content_state relay_state::content_state_of(const std::string& id,
                                            const content& c) const {
  content_state out;
  out.content = id;
  out.model = c.info.model;
  out.version = c.info.version;
  out.bytes = c.info.bytes;
  out.chunks = chunks_of(c.info);
  out.missing = !c.wants ? 0 : c.bytes ? c.missing : out.chunks;
  if (c.bytes && !c.here)
    out.only = travelling::chunks_for(*c.bytes, c.layers.first, c.layers.last);
  if (out.only == std::vector<chunk_range>{{0, out.chunks}})
    out.only.clear(); // all chunks: the same chain as whole receivers
  out.token = c.token;
  out.wants = c.wants;
  out.rank = c.rank;
  out.from = c.from;
  out.lasts = c.lasts;
  out.trouble = c.last_loss;
  out.after = c.after;
  out.begun = c.bytes != nullptr;
  out.on_disk = c.here;
  return out;
}

void relay_state::report() {
  reported_ = now();
  auto& self = options_.net->self();
  content_report x{
    self.name, self.incarnation,
    self.rack, options_.port->address(),
    {},        caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl()),
    self.host};
  for (auto& [id, c] : contents_)
    x.contents.push_back(content_state_of(id, c));
  auto tell = [&](const std::string& node) {
    if (auto to = options_.net->resolve(node + "/chains"))
      self_->send(caf::actor_cast<chain_controller_actor>(to), x);
  };
  tell(self.name);
  for (auto& node : controllers_)
    if (node != self.name)
      tell(node);
}

relay_actor::behavior_type
relay(relay_actor::stateful_pointer<relay_state> self, relay_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](const fetch& x) { return s.on_fetch(x); },
    [&s](const bundle_list& x) { s.on_bundle_list(x); },
    [&s](const drop_content& x) { s.on_drop_content(x); },
    [&s](get_contents) { return s.on_get_contents(); },
    [&s](const set_sources& x) { s.on_set_sources(x); },
    [&s](const pin_content& x) { s.on_pin_content(x); },
    [&s](const pinned_contents& x) { s.on_pinned_contents(x); },
    [&s](const peer_up& x) { s.on_peer_up(x); },
    [&s](const peer_down& x) { s.on_peer_down(x); },
    [&s](report_contents) { s.report_soon(); },
    [&s](const content_begun& x) { s.on_begun(x); },
    [&s](const content_found& x) { s.on_found(x); },
    [&s](const content_got& x) { s.on_got(x); },
    [&s](const content_lost& x) { s.on_lost(x); },
    [&s](const content_broken& x) { s.on_broken(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
