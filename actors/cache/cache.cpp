// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/cache_state.hpp"

#include <set>

#include "runtime/log.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

model_info describe(const bundle_store::entry& entry) {
  auto& x = entry.info;
  model_info out;
  out.model = x.name;
  out.version = x.version;
  out.application = x.application;
  if (x.accuracy)
    out.accuracy = x.accuracy->value;
  out.bytes = x.weights.bytes;
  out.labels = x.labels;
  out.signature = x.signature;
  out.aliases = entry.aliases;
  return out;
}

class directory_reader : public bundle_reader {
public:
  explicit directory_reader(std::string directory)
    : store_(std::move(directory)),
      thread_("cache") {}

  void open(const std::string& model, uint64_t version, opened done) override {
    thread_.post([this, model, version, done = std::move(done)] {
      done(open_now(model, version));
    });
  }

  void list(listed done) override {
    thread_.post([this, done = std::move(done)] {
      auto found = store_.list();
      report(found.broken);
      std::vector<model_info> out;
      for (auto& x : found.good)
        out.push_back(describe(x));
      done(std::move(out));
    });
  }

private:
  result<fetched> open_now(const std::string& model, uint64_t version) {
    auto x = store_.open(model, std::to_string(version), verify::hashes);
    if (!x)
      return x.failure();
    auto aliases = store_.aliases(model);
    if (!aliases)
      return aliases.failure();
    auto info = describe({x->info, pointing_at(*aliases, version)});
    return fetched{std::make_shared<bundle>(std::move(*x)), std::move(info)};
  }

  /// Says once what is wrong with a bundle that nobody will get.
  void report(const std::vector<error>& broken) {
    std::set<std::string> now;
    for (auto& x : broken) {
      now.insert(x.text);
      if (!reported_.contains(x.text))
        log_event(log_level::error, "cache", "broken_bundle",
                  {{"error", x.text}});
    }
    reported_ = std::move(now);
  }

  bundle_store store_;
  std::set<std::string> reported_; ///< on the thread
  worker_thread thread_;
};

} // namespace

std::unique_ptr<bundle_reader> read_directory(std::string directory) {
  return std::make_unique<directory_reader>(std::move(directory));
}

template <class T>
auto cache_state::teller() {
  return [me = caf::actor_cast<caf::weak_actor_ptr>(self->ctrl())](T x) {
    if (auto to = caf::actor_cast<caf::strong_actor_ptr>(me))
      caf::anon_send(caf::actor_cast<cache_actor>(to), std::move(x));
  };
}

caf::result<fetched> cache_state::on_fetch(const fetch& x) {
  key k{x.model, x.version};
  if (auto i = open_.find(k); i != open_.end())
    if (auto content = i->second.content.lock())
      return fetched{std::move(content), i->second.info};
  auto promise = self->make_response_promise<fetched>();
  auto& waiting = opening_[k];
  waiting.push_back(promise);
  if (waiting.size() == 1)
    reader->open(
      x.model, x.version, [k, tell = teller<bundle_opened>()](auto content) {
        tell({k.first, k.second,
              std::make_shared<decltype(content)>(std::move(content))});
      });
  return promise;
}

void cache_state::on_opened(const bundle_opened& x) {
  key k{x.model, x.version};
  auto& found = *x.content;
  if (found)
    open_[k] = {found->content, found->info};
  for (auto& promise : opening_[k]) {
    if (found)
      promise.deliver(*found);
    else
      promise.deliver(to_caf(found.failure()));
  }
  opening_.erase(k);
}

caf::result<bundle_list> cache_state::on_list() {
  auto promise = self->make_response_promise<bundle_list>();
  listing_.push_back(promise);
  if (listing_.size() == 1)
    reader->list([tell = teller<bundle_list>()](auto models) {
      tell({std::move(models)});
    });
  return promise;
}

void cache_state::on_listed(const bundle_list& x) {
  for (auto& promise : listing_)
    promise.deliver(x);
  listing_.clear();
}

cache_actor::behavior_type
cache(cache_actor::stateful_pointer<cache_state> self,
      std::shared_ptr<bundle_reader> reader) {
  auto& s = self->state;
  s.self = self;
  s.reader = std::move(reader);
  set_common_handlers(self);
  return {
    [&s](const fetch& x) { return s.on_fetch(x); },
    [&s](list_bundles) { return s.on_list(); },
    [&s](const bundle_opened& x) { s.on_opened(x); },
    [&s](const bundle_list& x) { s.on_listed(x); },
  };
}

} // namespace millrace
