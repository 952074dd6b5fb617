// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>

#include <caf/scoped_actor.hpp>

#include "actors/cache/cache_state.hpp"
#include "models/travelling_bundle.hpp"
#include "runtime/bytes.hpp"
#include "runtime/worker_thread.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/store_with_one.hpp"
#include "tests/support/why.hpp"

/// \file
/// A CACHE on real threads and files, whose host has as much memory as a test
/// says.

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr auto soon = 10s;

/// A reader of a directory that says how often it was asked to open something.
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

class host_with_cache {
public:
  /// 0: what leaves 15 % of the host's. With a relay it asks others, too, who
  /// give nothing.
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
        return caf::behavior{[this, self](const fetch&) {
                               asked_others = true;
                               return self->make_response_promise<fetched>();
                             },
                             [this](get_contents) { return at_relay; },
                             [](const bundle_list&) {},
                             [this](const let_go&) { let_it_go = true; }};
      })};
      auto relay = caf::actor_cast<relay_actor>(silent);
      x.find_relay = [relay] { return relay; };
    }
    begin();
  }

  void begin() {
    cache_ = system_->spawn(cache, options_);
    REQUIRE(
      eventually([&] { return row(cache_place::disk).has_value(); }, soon));
  }

  /// The relay, and whoever uses something, stay.
  void crash_and_begin_anew() {
    caf::anon_send_exit(cache_, caf::exit_reason::kill);
    begin();
  }

  ~host_with_cache() {
    caf::anon_send_exit(cache_, caf::exit_reason::user_shutdown);
  }

  /// Somebody who uses what he asks for until he is gone.
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

    /// With all of its bytes.
    fetched use(const std::string& content = {}) {
      auto out = ask(content);
      REQUIRE_MESSAGE(out, why(out));
      auto& file = *out->content->weights_file;
      REQUIRE(file.wait({0, file.chunks()}));
      return *out;
    }

  private:
    host_with_cache& at_;
    caf::scoped_actor self_;
  };

  /// All of them, before there is an answer.
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

  /// What the cache has of the model there.
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

  /// What its supervisor was told last.
  bundle_list told() {
    std::lock_guard guard{mutex_};
    return told_;
  }

  void tell(const last_copies& x) { caf::anon_send(cache_, x); }

  std::string content() { return row(cache_place::disk)->content; }

  store_with_one store;
  std::shared_ptr<counting_reader> reader;
  std::shared_ptr<metrics> counts = std::make_shared<metrics>();
  std::atomic<uint64_t> available{900u << 20};
  std::atomic<bool> asked_others{false};
  std::atomic<bool> let_it_go{false};
  contents_here at_relay; ///< before it begins

private:
  std::mutex mutex_;
  bundle_list told_; ///< guarded
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  cache_options options_;
  cache_actor cache_;
};

/// Of all of it.
std::string hash_of(const fetched& x) {
  return sha256_hex(x.content->weights_file->content().view());
}

} // namespace

TEST_CASE(
  "FP-38, FP-39, QU-36, QU-37, QU-38, QU-39: what was read stays when nobody"
  " uses it, and nothing is read for who comes next") {
  host_with_cache host;
  auto content = host.content();
  std::string hash;
  {
    host_with_cache::user first{host};
    auto x = first.use(content);
    CHECK(x.from == "disk");
    hash = hash_of(x);
    CHECK(host.row(cache_place::memory)->users == 1);
  }
  REQUIRE(eventually(
    [&] {
      auto x = host.row(cache_place::memory);
      return x && x->users == 0;
    },
    soon));
  CHECK(host.row(cache_place::memory)->content == content);
  std::filesystem::resize_file(host.store.file("weights.safetensors"), 0);
  host_with_cache::user next{host};
  auto x = next.use(content);
  CHECK(x.from == "memory");
  CHECK(hash_of(x) == hash);
  CHECK(host.reader->times_opened() == 1);
}

TEST_CASE("P8: what is in use stays as it was verified, whatever is done to its"
          " file") {
  host_with_cache host;
  host_with_cache::user one{host};
  auto x = one.use();
  auto hash = hash_of(x);
  auto file = host.store.file("weights.safetensors");
  std::filesystem::resize_file(file, 100);
  CHECK(hash_of(x) == hash);
  std::filesystem::remove(file);
  CHECK(hash_of(x) == hash);
}

TEST_CASE("P8: what could not be opened, and nobody else has, is opened once"
          " somebody has mended it") {
  host_with_cache host{0, true};
  auto content = host.content();
  auto weights = host.store.file("weights.safetensors");
  std::filesystem::rename(weights, host.store.folder / "aside");
  std::promise<result<fetched>> answer;
  worker_thread waits{"waits"};
  waits.post(
    [&] { answer.set_value(host_with_cache::user{host}.ask(content)); });
  REQUIRE(eventually([&] { return host.asked_others.load(); }, soon));
  std::filesystem::rename(host.store.folder / "aside", weights);
  auto x = answer.get_future().get();
  REQUIRE_MESSAGE(x, why(x));
  CHECK(x->info.content == content);
}

TEST_CASE("P8: a bundle whose code is broken is shown and told to be until that"
          " is mended, whatever else changes") {
  host_with_cache host;
  auto code = host.store.file("layers/001.pt");
  REQUIRE(std::filesystem::exists(code));
  auto text = read_file(code, 1u << 20);
  REQUIRE(text);
  std::ofstream{code} << "code of x";
  CHECK_FALSE(host_with_cache::user{host}.ask());
  auto tells_of = [&](size_t unusable) {
    return eventually([&] { return host.told().unusable.size() == unusable; },
                      soon);
  };
  REQUIRE(tells_of(1));
  CHECK(host.told().unusable[0].find("001.pt") != std::string::npos);
  CHECK(host.row(cache_place::broken));
  std::filesystem::create_directories(host.store.folder / "other/1");
  std::ofstream{host.store.folder / "other/1/model.yaml"} << "format: [";
  REQUIRE(tells_of(2));
  CHECK(host.row(cache_place::broken));
  std::ofstream{code} << *text; // the folder does not change
  CHECK(tells_of(1));
  CHECK_FALSE(host.row(cache_place::broken));
  CHECK(host_with_cache::user{host}.ask());
  CHECK(host.counts->text().find("millrace_cache_quarantined_total 1")
        != std::string::npos);
}

TEST_CASE("cache: why a bundle that is there cannot be used is told, until it"
          " can") {
  host_with_cache host;
  auto manifest = host.store.file("model.yaml");
  std::filesystem::rename(manifest, host.store.folder / "aside");
  std::ofstream{manifest} << "format: [";
  REQUIRE(eventually([&] { return host.told().unusable.size() == 1; }, soon));
  CHECK(host.told().unusable[0].find("model.yaml") != std::string::npos);
  CHECK(host.told().models.empty());
  std::filesystem::rename(host.store.folder / "aside", manifest);
  CHECK(eventually([&] { return host.told().unusable.empty(); }, soon));
  CHECK(eventually([&] { return host.told().models.size() == 1; }, soon));
}

TEST_CASE("FP-42: many who ask for one model at a time have it opened once, and"
          " have the same bytes") {
  host_with_cache host;
  std::vector<fetched> got(8);
  host.ask_at_once(got);
  CHECK(host.reader->times_opened() == 1);
  for (auto& x : got)
    CHECK(x.content == got[0].content);
  CHECK(got[0].content != nullptr);
}

TEST_CASE("QU-42: where others need the host's memory, models go that nobody"
          " uses, and stay that somebody does") {
  host_with_cache host;
  auto user = std::make_unique<host_with_cache::user>(host);
  user->use();
  host.available = 100u << 20; // 15 % are for others
  auto gone = [&] { return !host.row(cache_place::memory); };
  CHECK_FALSE(eventually(gone, 1500ms));
  user.reset();
  CHECK(eventually(gone, soon));
  CHECK(host.counts->text().find(
          R"(millrace_cache_evictions_total{tier="memory"} 1)")
        != std::string::npos);
}

TEST_CASE(
  "cache: metrics say what it has, where that was found, and what went") {
  host_with_cache host{64u << 20};
  auto says = [&](const std::string& line) {
    return eventually(
      [&] {
        return host.counts->text().find(line + "\n") != std::string::npos;
      },
      soon);
  };
  CHECK(says(R"(millrace_cache_limit_bytes{tier="memory"} 67108864)"));
  // From the start, so that whoever reads them sees the first change.
  CHECK(says("millrace_cache_quarantined_total 0"));
  CHECK(says(R"(millrace_cache_fetches_total{from="stores"} 0)"));
  {
    host_with_cache::user first{host}, second{host};
    auto bytes = first.use().info.bytes;
    second.use();
    CHECK(
      says(R"(millrace_cache_bytes{tier="memory"} )" + std::to_string(bytes)));
  }
  CHECK(says(R"(millrace_cache_fetches_total{from="disk"} 1)"));
  CHECK(says(R"(millrace_cache_fetches_total{from="memory"} 1)"));
  CHECK_FALSE(host_with_cache::user{host}.ask("no such content"));
  CHECK(says(R"(millrace_cache_fetches_total{from="nowhere"} 1)"));
}

TEST_CASE("QU-42: how much memory there is for models is told as others need"
          " more of it, or less, but not each small change") {
  host_with_cache host;
  auto tells = [&](uint64_t low, uint64_t high) {
    return eventually(
      [&] {
        auto x = host.told().memory >> 20;
        return x >= low && x <= high;
      },
      soon);
  };
  host.available = 950u << 20; // 15 % of 1000 MiB are for others
  CHECK(tells(770, 800));
  auto before = host.told().memory;
  host.available = 940u << 20;
  CHECK_FALSE(eventually([&] { return host.told().memory != before; }, 1500ms));
  host.available = 400u << 20;
  CHECK(tells(235, 250));
  host.available = 100u << 20;
  CHECK(tells(0, 0));
}

TEST_CASE("cache: where there is no room, a model is used where it lies") {
  host_with_cache host{1};
  host_with_cache::user one{host};
  auto x = one.use();
  CHECK_FALSE(x.content->weights_file->is_in_memory());
  CHECK_FALSE(host.row(cache_place::memory));
}

TEST_CASE(
  "I19: a last copy in memory is kept once the disk has none any more") {
  host_with_cache host;
  auto held = host_with_cache::user{host}.use();
  host.tell({{held.info.content}});
  auto is_last = [&] {
    auto x = host.row(cache_place::memory);
    return x && x->last;
  };
  CHECK_FALSE(is_last());
  CHECK(host.told().kept.empty());
  std::filesystem::remove_all(host.store.folder / "m");
  CHECK(eventually(is_last, soon));
  CHECK(eventually(
    [&] {
      auto x = host.told();
      return x.models.empty() && x.kept.size() == 1
             && x.kept[0].content == held.info.content;
    },
    soon));
  auto stays = [&](bool yes) {
    return eventually(
      [&] {
        auto x = host.told();
        return x.held.size() == 1 && x.held[0].last == yes;
      },
      soon);
  };
  CHECK(stays(true));
  host.tell({}); // another host has it for good
  CHECK(stays(false));
}

TEST_CASE("QU-43: who names no content has what is there now, not what is still"
          " in memory") {
  host_with_cache host;
  auto before = host.content();
  {
    host_with_cache::user one{host};
    one.use();
  }
  // The same weights under another manifest.
  auto manifest = host.store.file("model.yaml");
  auto text = read_file(manifest, 1u << 20);
  REQUIRE(text);
  auto changed = *text + "\nlabels: [rolled]\n";
  REQUIRE(write_file(manifest, std::as_bytes(std::span{changed})));
  REQUIRE(eventually([&] { return host.content() != before; }, soon));
  host_with_cache::user next{host};
  auto x = next.use();
  CHECK(x.info.content != before);
  CHECK(x.info.labels == std::vector<std::string>{"rolled"});
}

TEST_CASE("I19: what was on its way goes on when its cache begins anew, however"
          " little memory there is, and the last copy is still known") {
  host_with_cache host{0, true};
  store_with_one elsewhere;
  auto x = elsewhere.open();
  REQUIRE(x);
  auto comes =
    travelling::begin(travelling::id_of(*x), *travelling::pieces_of(*x));
  REQUIRE(comes);
  auto part = std::make_shared<const bundle>(std::move(*comes));
  REQUIRE(part->weights_file->put(
    0, x->weights_file->content().view().first(chunk_bytes)));
  auto info = describe(*part, {});
  info.content = "other";
  host.at_relay.memory = {{"other", info, part, {}, false}};
  host.at_relay.last.contents = {"other"};
  host.available = 150u << 20; // what others need; none is left for models
  host.crash_and_begin_anew();
  auto row = [&] { return host.row(cache_place::arriving); };
  REQUIRE(eventually(row, soon));
  CHECK(row()->there == chunk_bytes);
  CHECK(row()->last);
  CHECK_FALSE(eventually([&] { return host.let_it_go.load(); }, 2500ms));
}

TEST_CASE("P8: what had begun to come goes on to come from others, though the"
          " disk has it by now") {
  host_with_cache host{0, true};
  auto x = host.store.open();
  REQUIRE_MESSAGE(x, why(x));
  auto comes =
    travelling::begin(travelling::id_of(*x), *travelling::pieces_of(*x));
  REQUIRE_MESSAGE(comes, why(comes));
  auto part = std::make_shared<const bundle>(std::move(*comes));
  host.at_relay.memory = {
    {host.content(), describe(*part, {}), part, {}, false}};
  host.crash_and_begin_anew();
  REQUIRE(eventually([&] { return host.row(cache_place::arriving); }, soon));
  host_with_cache::user one{host};
  auto got = one.ask();
  REQUIRE_MESSAGE(got, why(got));
  CHECK(got->content == part);
  CHECK(eventually([&] { return host.asked_others.load(); }, soon));
  CHECK_FALSE(host.row(cache_place::broken));
  CHECK_FALSE(part->weights_file->is_given_up());
}
