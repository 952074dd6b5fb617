// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/reserved_content.hpp"
#include "models/travelling_bundle.hpp"
#include "simulator/contents.hpp"

using namespace millrace;

namespace {

constexpr uint64_t chunk_of_test = 64u << 20;

/// A model of 40 GB in 5 layers that is in the object store.
scenario large_model() {
  scenario out;
  out.chunk = {chunk_of_test};
  auto& x = out.bundles["large"];
  x.bytes = {40'000'000'000};
  x.layers = 5;
  x.at = bundle_place::store;
  return out;
}

/// A host that received the head of a bundle and has memory for its chunks.
bundle begin_on_a_host(simulator::contents& all, const bundle& from) {
  auto pieces = travelling::pieces_of(from);
  REQUIRE(pieces);
  auto out = travelling::begin(travelling::id_of(from), *pieces, all.memory());
  if (!out)
    FAIL(to_string(out.failure()));
  return std::move(*out);
}

const_bytes chunk_in(const bundle& x, size_t chunk) {
  auto& file = *x.weights_file;
  auto begin = chunk * file.bytes_of_chunk();
  return file.content().view().subspan(
    begin, std::min(file.bytes_of_chunk(), file.bytes() - begin));
}

} // namespace

TEST_CASE("contents without bytes: a model of 40 GB is transferred in 597 "
          "chunks with its weights at their layers' places") {
  auto what = large_model();
  simulator::contents all{what};
  auto whole = all.whole("large", 1);
  auto host = begin_on_a_host(all, *whole);
  auto& file = *host.weights_file;
  CHECK(file.chunks() == 597);
  CHECK(file.chunks_there() == 0);
  for (size_t i = 0; i < file.chunks(); ++i)
    REQUIRE(file.put(i, chunk_in(*whole, i)));
  CHECK(file.has({0, file.chunks()}));
  REQUIRE(*find_weights(host));
  CHECK(weight_bytes(host, 0, 5) == 40'000'000'000);
  CHECK(weight_bytes(host, 1, 2) == 8'000'000'000);
}

TEST_CASE("contents without bytes: a chunk with a wrong place or content or "
          "bytes is refused and may be sent again") {
  auto what = large_model();
  what.bundles["other"] = what.bundles["large"];
  simulator::contents all{what};
  auto whole = all.whole("large", 1);
  auto host = begin_on_a_host(all, *whole);
  auto& file = *host.weights_file;
  std::string text(chunk_of_test, '\0');
  auto copy = std::as_bytes(std::span{text});
  for (auto wrong :
       {chunk_in(*whole, 2), chunk_in(*all.whole("other", 1), 1), copy}) {
    auto put = file.put(1, wrong);
    REQUIRE_FALSE(put);
    CHECK(put.failure().code == ec::bad_config);
    CHECK_FALSE(file.has(1));
  }
  CHECK(file.put(1, chunk_in(*whole, 1)));
  CHECK(file.has(1));
  CHECK_FALSE(file.put(0, chunk_in(*whole, 0).first(5)));
}

TEST_CASE("contents without bytes: layers need the chunks that contain them") {
  auto what = large_model();
  simulator::contents all{what};
  auto whole = all.whole("large", 1);
  auto ranges = travelling::chunks_for(*whole, 1, 2);
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0] == chunk_range{0, 1});
  CHECK(ranges[1].size() == 120); // 8 GB
}

TEST_CASE(
  "contents without bytes: the files of the object store match the bundle") {
  auto what = large_model();
  what.bundles["local"] = simulated_model{};
  simulator::contents all{what};
  auto whole = all.whole("large", 1);
  CHECK(all.stored_file("large/1/model.yaml")->text() == whole->text);
  CHECK(all.stored_file("large/1/weights.safetensors")->size()
        == whole->info.weights.bytes);
  CHECK(all.stored_file("index.yaml")->text().find(travelling::id_of(*whole))
        != std::string::npos);
  for (auto* path : {"large/2/model.yaml", "large/1/none", "none/1/model.yaml",
                     "local/1/model.yaml", "large", ""})
    CHECK_FALSE(all.stored_file(path));
}

TEST_CASE("contents without bytes: a real host refuses a bundle with chunks of "
          "another size") {
  auto what = large_model();
  simulator::contents all{what};
  auto whole = all.whole("large", 1);
  auto begun = travelling::begin(travelling::id_of(*whole),
                                 *travelling::pieces_of(*whole));
  REQUIRE_FALSE(begun);
  CHECK(begun.failure().text.find("expected 1048576") != std::string::npos);
}
