// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <caf/scoped_actor.hpp>

#include "actors/cache/cache_state.hpp"
#include "runtime/bytes.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/store_with_one.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/why.hpp"

namespace millrace::test {

constexpr auto soon = 10s;

/// A directory reader that counts the calls of open().
class counting_reader : public bundle_reader {
public:
  explicit counting_reader(const std::string& folder)
    : real_(read_directory(folder)) {}

  void open(const std::string& model, uint64_t version, verify how,
            opened done) override {
    ++opened_;
    real_->open(model, version, how, std::move(done));
  }
  void bring(std::shared_ptr<const bundle> x, layer_range layers,
             transfer_rank rank) override {
    real_->bring(std::move(x), layers, rank);
  }
  void watch(changed tell, broken tell_broken) override {
    real_->watch(std::move(tell), std::move(tell_broken));
  }
  int times_opened() const { return opened_; }

private:
  std::unique_ptr<bundle_reader> real_;
  std::atomic<int> opened_{0};
};

/// A CACHE on real threads and files, with host memory set by the test.
class host_with_cache {
public:
  /// `memory` 0: 85 % of the host memory. With a relay, the cache also requests
  /// bundles from other hosts, which never answer, and has a disk cache.
  explicit host_with_cache(uint64_t memory = 0, bool with_relay = false) {
    add_error_category(config_);
    system_ = std::make_unique<caf::actor_system>(config_);
    auto& x = options_;
    x.reader = reader = std::make_shared<counting_reader>(store.folder.path());
    x.memory = {memory};
    x.counts = counts;
    caf::actor owner{system_->spawn([this](caf::event_based_actor*) {
      return caf::behavior{[this](const bundle_list& y) {
        std::lock_guard guard{mutex_};
        told_ = y;
      }};
    })};
    x.owner = caf::actor_cast<supervisor_actor>(owner);
    x.probe = [this] {
      host_reading out;
      out.memory = 1000u << 20;
      out.available = available;
      return out;
    };
    if (with_relay) {
      caf::actor silent{system_->spawn([this](caf::event_based_actor* self) {
        return caf::behavior{
          [this, self](const fetch&) {
            asked_others = true;
            return self->make_response_promise<fetched>();
          },
          [this](get_contents) { return at_relay; },
          [this](const bundle_list& y) {
            to_give = y.models.size() + y.kept.size();
          },
          [this](const drop_content&) { told_to_drop = true; }};
      })};
      auto relay = caf::actor_cast<relay_actor>(silent);
      x.find_relay = [relay] { return relay; };
      x.keeper = keep_in_directory(kept / "bundles");
      x.disk = {1u << 30};
    }
    begin();
  }

  void begin() {
    cache_ = system_->spawn(cache, options_);
    REQUIRE(
      eventually([&] { return row(cache_place::disk).has_value(); }, soon));
  }

  /// Restarts the cache. The relay and the users of bundles stay.
  void crash_and_begin_anew() {
    caf::anon_send_exit(cache_, caf::exit_reason::kill);
    begin();
  }

  ~host_with_cache() {
    caf::anon_send_exit(cache_, caf::exit_reason::user_shutdown);
  }

  /// A user of the cache, which holds its bundles until it is destroyed.
  class user {
  public:
    explicit user(host_with_cache& at) : at_(at), self_(*at.system_) {}

    result<fetched> ask(const std::string& content = {}) {
      result<fetched> out{error{ec::internal, "no answer", {}}};
      self_
        ->request(at_.cache_, caf::timespan{10s},
                  fetch{"m", 1, {}, content, transfer_rank::start, 0})
        .receive([&](const fetched& x) { out = x; },
                 [&](const caf::error& x) { out = from_caf(x); });
      return out;
    }

    /// Waits for the bundle with all of its bytes.
    fetched use(const std::string& content = {}) {
      auto out = ask(content);
      REQUIRE_MESSAGE(out, why(out));
      auto& file = *out->content->weights_file;
      REQUIRE(file.wait({0, file.chunks()}));
      return *out;
    }

    /// Reports the use of a bundle to a restarted cache.
    void say_it_uses(const fetched& x) {
      self_->send(
        at_.cache_,
        content_here{x.info.content, x.info, x.content, {}, x.from == "disk"});
    }

  private:
    host_with_cache& at_;
    caf::scoped_actor self_;
  };

  /// Sends the requests of all users before the first answer.
  void ask_at_once(std::vector<fetched>& answers) {
    caf::scoped_actor self{*system_};
    auto ask = [&] {
      return self->request(cache_, caf::timespan{10s},
                           fetch{"m", 1, {}, {}, transfer_rank::start, 0});
    };
    std::vector<decltype(ask())> asked;
    for (size_t i = 0; i < answers.size(); ++i)
      asked.push_back(ask());
    for (size_t i = 0; i < answers.size(); ++i)
      asked[i].receive(
        [&](const fetched& x) { answers[i] = x; },
        [](const caf::error& x) { FAIL(to_string(from_caf(x))); });
  }

  /// The row of the model at this place in the cache.
  std::optional<cached_bundle> row(cache_place place) {
    std::optional<cached_bundle> out;
    caf::scoped_actor self{*system_};
    self->request(cache_, caf::timespan{10s}, get_cache{})
      .receive(
        [&](const cache_status& x) {
          for (auto& y : x.bundles)
            if (y.state == place)
              out = y;
        },
        [](const caf::error& x) { FAIL(to_string(from_caf(x))); });
    return out;
  }

  /// The last report to the supervisor.
  bundle_list told() {
    std::lock_guard guard{mutex_};
    return told_;
  }

  void tell(const pinned_contents& x) { caf::anon_send(cache_, x); }

  std::string content() { return row(cache_place::disk)->content; }

  store_with_one store;
  temporary_directory kept;
  std::shared_ptr<counting_reader> reader;
  std::shared_ptr<metrics> counts = std::make_shared<metrics>();
  std::atomic<uint64_t> available{900u << 20};
  std::atomic<bool> asked_others{false};
  std::atomic<bool> told_to_drop{false};
  std::atomic<size_t> to_give{0}; ///< number of models reported to the relay
  contents_here at_relay; ///< contents of the relay before the cache starts

private:
  std::mutex mutex_;
  bundle_list told_; ///< guarded
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  cache_options options_;
  cache_actor cache_;
};

/// Hash of all weights of a bundle.
inline std::string hash_of(const fetched& x) {
  return sha256_hex(x.content->weights_file->content().view());
}

} // namespace millrace::test
