// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <future>
#include <mutex>

#include "actors/cache/cache.hpp"
#include "models/host_memory.hpp"
#include "models/travelling_bundle.hpp"
#include "tests/support/store_with_one.hpp"

/// \file
/// Reader of the bundles in a host's model directory.

using namespace millrace;
using namespace millrace::test;

TEST_CASE("FP-42: a process that has read its layers does not block other "
          "processes from reading theirs") {
  store_with_one store;
  temporary_directory meeting;
  std::filesystem::permissions(meeting.path(),
                               std::filesystem::perms::owner_all);
  auto reader = [&] {
    auto memory = *host_memory::join(meeting.path() + "/host");
    return read_directory(store.folder.path(), [memory](auto path, auto bytes,
                                                        auto list, auto from) {
      return memory->open(path, bytes, list, std::move(from));
    });
  };
  auto open = [](bundle_reader& x) {
    auto done = std::make_shared<std::promise<result<fetched>>>();
    x.open("m", 1, verify::into_memory,
           [done](auto found) { done->set_value(std::move(found)); });
    return done->get_future();
  };
  auto one = reader(), another = reader();
  auto first = open(*one).get();
  REQUIRE(first);
  one->bring(first->content, {0, 1}, transfer_rank::start);
  REQUIRE(first->content->weights_file->wait(chunks_of(*first->content, 0, 1)));
  auto second = open(*another);
  // without the wait of 30 s
  REQUIRE(second.wait_for(10s) == std::future_status::ready);
  CHECK(second.get()->content->weights_file->is_in_memory());
}

TEST_CASE(
  "reader: layers for a start are verified before layers for other hosts") {
  store_with_one store;
  auto reader = read_directory(store.folder.path());
  auto open = [&](std::function<void()> then) {
    std::promise<result<fetched>> done;
    reader->open("m", 1, verify::all_but_weights, [&](auto found) {
      then();
      done.set_value(std::move(found));
    });
    return done.get_future().get();
  };
  auto x = open([] {});
  REQUIRE(x);
  auto& file = *x->content->weights_file;
  std::mutex mutex;
  std::vector<std::string> order;
  auto note = [&](const std::string& what, size_t layer) {
    file.when(chunks_of(*x->content, layer, layer + 1), [&, what](auto&) {
      std::lock_guard guard{mutex};
      order.push_back(what);
    });
  };
  note("others", 0);
  note("start", 2);
  // Both requests are made while the reader is busy.
  auto asked = open([&] {
    reader->bring(x->content, {0, 2}, transfer_rank::prefetch);
    reader->bring(x->content, {2, 3}, transfer_rank::start);
  });
  REQUIRE(asked);
  REQUIRE(file.wait({0, file.chunks()}));
  std::lock_guard guard{mutex};
  CHECK(order == std::vector<std::string>{"start", "others"});
}
