// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/travelling_bundle.hpp"
#include "tests/support/host_with_cache.hpp"

/// \file
/// State of a CACHE that replaces one that was lost.

using namespace millrace;
using namespace millrace::test;

TEST_CASE("I12: a model that a user got from a lost cache is kept and served "
          "by the next cache") {
  host_with_cache host;
  auto content = host.content();
  host_with_cache::user first{host}, next{host};
  auto x = first.use(content);
  REQUIRE(x.from == "disk");
  host.crash_and_begin_anew();
  CHECK_FALSE(host.row(cache_place::memory));
  first.say_it_uses(x);
  REQUIRE(eventually([&] { return host.row(cache_place::memory); }, soon));
  CHECK(host.row(cache_place::memory)->users == 1);
  CHECK(next.use(content).content == x.content);
  CHECK(host.row(cache_place::memory)->users == 2);
  host.available = 100u << 20; // leaves no memory for models
  CHECK_FALSE(eventually(
    [&] { return !host.row(cache_place::memory).has_value(); }, 1500ms));
}

TEST_CASE("cache: a model from the operator's store is not copied to the disk "
          "cache when a new cache learns of it from a user") {
  host_with_cache host{0, true};
  auto content = host.content();
  host_with_cache::user first{host}, next{host};
  first.use(content);
  auto x = next.use(content);
  REQUIRE(x.from == "memory"); // not read from the disk
  host.crash_and_begin_anew();
  next.say_it_uses(x);
  REQUIRE(eventually([&] { return host.row(cache_place::memory); }, soon));
  CHECK_FALSE(eventually([&] { return host.row(cache_place::kept); }, 1s));
}

TEST_CASE("I19: a transfer in progress survives a restart of the cache with "
          "little memory and stays marked as the last copy") {
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
  host.available = 150u << 20; // leaves no memory for models
  host.crash_and_begin_anew();
  auto row = [&] { return host.row(cache_place::arriving); };
  REQUIRE(eventually(row, soon));
  CHECK(row()->there == chunk_bytes);
  CHECK(row()->last);
  CHECK_FALSE(eventually([&] { return host.told_to_drop.load(); }, 2500ms));
}

TEST_CASE("P8: a transfer that had begun goes on from other hosts although the "
          "disk has the bundle now") {
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
