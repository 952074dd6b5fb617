// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/cache_state.hpp"

#include <filesystem>
#include <set>

#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

model_info describe(const manifest& x, std::vector<std::string> aliases) {
  model_info out;
  out.model = x.name;
  out.version = x.version;
  out.application = x.application;
  if (x.accuracy)
    out.accuracy = x.accuracy->value;
  out.bytes = x.weights.bytes;
  for (auto& layer : x.layers)
    out.layer_bytes.push_back(layer.parameter_bytes);
  out.labels = x.labels;
  out.signature = x.signature;
  out.layers_key = layers_key(x.layers);
  out.aliases = std::move(aliases);
  return out;
}

namespace {

/// Between two looks into the directory.
constexpr auto look_again = 2000ms;

class directory_reader : public bundle_reader {
public:
  explicit directory_reader(std::string directory)
    : folder_(directory),
      store_(std::move(directory)),
      thread_("cache") {}

  void open(const std::string& model, uint64_t version, opened done) override {
    thread_.post([this, model, version, done = std::move(done)] {
      done(open_now(model, version));
    });
  }

  void watch(changed tell) override {
    thread_.repeat(look_again, [this, tell = std::move(tell)] {
      look_for_folder();
      auto found = store_.list();
      report(found.broken);
      std::vector<model_info> now;
      for (auto& x : found.good)
        now.push_back(describe(x.info, x.aliases));
      if (told_ && *told_ == now)
        return;
      told_ = now;
      tell(std::move(now));
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
    auto info = describe(x->info, pointing_at(*aliases, version));
    return fetched{std::make_shared<bundle>(std::move(*x)), std::move(info)};
  }

  /// Says once that there is no such folder: nothing will ever be found there.
  void look_for_folder() {
    std::error_code none;
    auto there = std::filesystem::is_directory(folder_, none);
    if (!there && !missed_)
      log_event(log_level::warning, "cache", "no_folder",
                {{"folder", folder_}});
    missed_ = !there;
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

  std::string folder_;
  bool missed_ = false; ///< on the thread
  bundle_store store_;
  std::set<std::string> reported_;              ///< on the thread
  std::optional<std::vector<model_info>> told_; ///< on the thread
  worker_thread thread_;
};

} // namespace

std::unique_ptr<bundle_reader> read_directory(std::string directory) {
  return std::make_unique<directory_reader>(std::move(directory));
}

template <class T>
auto cache_state::teller() {
  return [me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl())](T x) {
    if (auto to = caf::actor_cast<caf::strong_actor_ptr>(me))
      caf::anon_send(caf::actor_cast<cache_actor>(to), std::move(x));
  };
}

void cache_state::start(cache_actor::stateful_pointer<cache_state> me,
                        std::shared_ptr<bundle_reader> from,
                        supervisor_actor owner) {
  self_ = me;
  reader_ = std::move(from);
  owner_ = std::move(owner);
  set_common_handlers(me);
  reader_->watch(
    [tell = teller<bundle_list>()](auto models) { tell({std::move(models)}); });
}

caf::result<fetched> cache_state::on_fetch(const fetch& x) {
  key k{x.model, x.version};
  if (auto i = open_.find(k); i != open_.end())
    if (auto content = i->second.content.lock())
      return fetched{std::move(content), i->second.info};
  auto promise = self_->make_response_promise<fetched>();
  auto& waiting = opening_[k];
  waiting.push_back(promise);
  if (waiting.size() == 1)
    reader_->open(
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

void cache_state::on_listed(const bundle_list& x) {
  self_->send(owner_, x);
}

cache_actor::behavior_type
cache(cache_actor::stateful_pointer<cache_state> self,
      std::shared_ptr<bundle_reader> reader, supervisor_actor owner) {
  auto& s = self->state;
  s.start(self, std::move(reader), std::move(owner));
  return {
    [&s](const fetch& x) { return s.on_fetch(x); },
    [&s](const bundle_opened& x) { s.on_opened(x); },
    [&s](const bundle_list& x) { s.on_listed(x); },
  };
}

} // namespace millrace
