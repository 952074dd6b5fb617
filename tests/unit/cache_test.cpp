// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "models/travelling_bundle.hpp"
#include "runtime/worker_thread.hpp"
#include "tests/support/host_with_cache.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("FP-38, FP-39, QU-36, QU-37, QU-38, QU-39: a model stays in memory "
          "without users and the next user causes no read") {
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

TEST_CASE(
  "P8: a model in use keeps its verified bytes after any change to its file") {
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

TEST_CASE("P8: a model that cannot be opened and is on no other host is opened "
          "once its file is repaired") {
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

TEST_CASE("P8: a bundle with broken code is reported and not served until the "
          "code is repaired") {
  host_with_cache host{0, true};
  auto code = host.store.file("layers/001.pt");
  REQUIRE(std::filesystem::exists(code));
  auto text = read_file(code, 1u << 20);
  REQUIRE(text);
  std::ofstream{code} << "code of x";
  CHECK_FALSE(host_with_cache::user{host}.ask());
  auto tells_of = [&](size_t troubles) {
    return eventually([&] { return host.told().troubles.size() == troubles; },
                      soon);
  };
  REQUIRE(tells_of(1));
  CHECK(host.told().troubles[0].find("001.pt") != std::string::npos);
  CHECK(host.row(cache_place::broken));
  CHECK(eventually([&] { return host.to_give == 0; }, soon));
  std::filesystem::create_directories(host.store.folder / "other/1");
  std::ofstream{host.store.folder / "other/1/model.yaml"} << "format: [";
  REQUIRE(tells_of(2));
  CHECK(host.row(cache_place::broken));
  std::ofstream{code} << *text; // the folder itself does not change
  CHECK(tells_of(1));
  CHECK_FALSE(host.row(cache_place::broken));
  CHECK(eventually([&] { return host.to_give == 1; }, soon));
  CHECK(host_with_cache::user{host}.ask());
  CHECK(host.counts->text().find("millrace_cache_quarantined_total 1")
        != std::string::npos);
}

TEST_CASE("cache: the reason why a present bundle cannot be used is reported "
          "until it can be") {
  host_with_cache host;
  auto manifest = host.store.file("model.yaml");
  std::filesystem::rename(manifest, host.store.folder / "aside");
  std::ofstream{manifest} << "format: [";
  REQUIRE(eventually([&] { return host.told().troubles.size() == 1; }, soon));
  CHECK(host.told().troubles[0].find("model.yaml") != std::string::npos);
  CHECK(host.told().models.empty());
  std::filesystem::rename(host.store.folder / "aside", manifest);
  CHECK(eventually([&] { return host.told().troubles.empty(); }, soon));
  CHECK(eventually([&] { return host.told().models.size() == 1; }, soon));
}

TEST_CASE("FP-42: concurrent requests for one model open it once and share the "
          "same bytes") {
  host_with_cache host;
  std::vector<fetched> got(8);
  host.ask_at_once(got);
  CHECK(host.reader->times_opened() == 1);
  for (auto& x : got)
    CHECK(x.content == got[0].content);
  CHECK(got[0].content != nullptr);
}

TEST_CASE("QU-42: when other processes need host memory only models without "
          "users are evicted") {
  host_with_cache host;
  auto user = std::make_unique<host_with_cache::user>(host);
  user->use();
  host.available = 100u << 20; // 15 % are reserved for others
  auto gone = [&] { return !host.row(cache_place::memory); };
  CHECK_FALSE(eventually(gone, 1500ms));
  user.reset();
  CHECK(eventually(gone, soon));
  CHECK(host.counts->text().find(
          R"(millrace_cache_evictions_total{tier="memory"} 1)")
        != std::string::npos);
}

TEST_CASE(
  "cache: metrics count its contents and fetches by source and evictions") {
  host_with_cache host{64u << 20};
  auto says = [&](const std::string& line) {
    return eventually(
      [&] {
        return host.counts->text().find(line + "\n") != std::string::npos;
      },
      soon);
  };
  CHECK(says(R"(millrace_cache_limit_bytes{tier="memory"} 67108864)"));
  // The counters exist from the start, so that a scraper sees the first change.
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

TEST_CASE("QU-42: the memory for models is reported after large changes of "
          "free memory and not after small ones") {
  host_with_cache host;
  auto tells = [&](uint64_t low, uint64_t high) {
    return eventually(
      [&] {
        auto x = host.told().memory >> 20;
        return x >= low && x <= high;
      },
      soon);
  };
  host.available = 950u << 20; // 15 % of 1000 MiB are reserved for others
  CHECK(tells(770, 800));
  auto before = host.told().memory;
  host.available = 940u << 20;
  CHECK_FALSE(eventually([&] { return host.told().memory != before; }, 1500ms));
  host.available = 400u << 20;
  CHECK(tells(235, 250));
  host.available = 100u << 20;
  CHECK(tells(0, 0));
}

TEST_CASE("cache: a model without room in memory is used from its file") {
  host_with_cache host{1};
  host_with_cache::user one{host};
  auto x = one.use();
  CHECK_FALSE(x.content->weights_file->is_in_memory());
  CHECK_FALSE(host.row(cache_place::memory));
}

TEST_CASE("I19: a last copy in memory is kept once it is gone from the disk") {
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
  host.tell({}); // another host has a permanent copy
  CHECK(stays(false));
}

TEST_CASE("QU-43: a request without a content gets the one in the store "
          "instead of an older one in memory") {
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
