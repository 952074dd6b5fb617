// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>

#include "models/bundle_store.hpp"
#include "models/travelling_bundle.hpp"
#include "runtime/sizes.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/store_with_one.hpp"
#include "tests/support/why.hpp"
#include "transport/bulk/bundle_content.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("bundle: its pieces make the same bundle on another host") {
  store_with_one here;
  auto x = here.open();
  REQUIRE_MESSAGE(x, why(x));
  auto pieces = travelling::pieces_of(*x);
  REQUIRE(pieces);
  CHECK(pieces->size() == 5); // manifest, chunk list, code of 3 layers
  auto y = travelling::begin(travelling::id_of(*x), *pieces);
  REQUIRE_MESSAGE(y, why(y));
  CHECK(y->info == x->info);
  CHECK_FALSE(find_weights(*y)); // no bytes have arrived
  auto& to = *y->weights_file;
  auto first = travelling::first_chunks(*y);
  CHECK(first == chunk_range{0, 1});
  for (size_t i = to.chunks(); i > 0; --i) {
    auto all = x->weights_file->content().view().subspan((i - 1) * chunk_bytes);
    REQUIRE(to.put(i - 1, all.first(std::min(all.size(), chunk_bytes))));
  }
  REQUIRE(find_weights(*y));
  CHECK(y->weights == x->weights);
}

TEST_CASE("bundle: the chunks of layers follow from the manifest alone") {
  store_with_one here;
  auto x = here.open();
  REQUIRE(x);
  for (size_t first = 0; first < 3; ++first)
    for (size_t last = first + 1; last <= 3; ++last)
      CHECK(travelling::chunks_by_manifest(x->info, first, last)
            == chunks_of(*x, first, last));
}

TEST_CASE("P8, I17: pieces of another bundle are refused") {
  store_with_one here;
  auto x = here.open();
  REQUIRE(x);
  auto pieces = *travelling::pieces_of(*x);
  auto id = travelling::id_of(*x);
  for (size_t i = 0; i < pieces.size(); ++i) {
    CAPTURE(i);
    auto wrong = pieces;
    std::string text{wrong[i].text()};
    text[text.size() / 2] ^= 1;
    wrong[i] = shared_bytes::copy_of(text);
    CHECK_FALSE(travelling::begin(id, wrong));
    wrong.erase(wrong.begin() + static_cast<ptrdiff_t>(i));
    CHECK_FALSE(travelling::begin(id, wrong));
  }
  CHECK_FALSE(travelling::begin(std::string(64, '0'), pieces));
  CHECK_FALSE(travelling::begin(id, {}));
  auto more = pieces;
  more.push_back(pieces.back());
  CHECK_FALSE(travelling::begin(id, more));
}

TEST_CASE(
  "P8: for a part only its own chunks of the weights have to be valid") {
  store_with_one here;
  auto weights = read_file(here.file("weights.safetensors"), 8u << 20);
  REQUIRE(weights);
  weights->back() ^= 1; // in the last layer
  REQUIRE(write_file(here.file("weights.safetensors"),
                     std::as_bytes(std::span{*weights})));
  CHECK(here.open().failure().text.find("SHA-256") != std::string::npos);
  auto x = here.open(verify::all_but_weights);
  REQUIRE(x);
  auto verify_layers = [&](size_t first, size_t last) {
    auto which = chunks_of(*x, first, last);
    for (auto i = which.first; i < which.last; ++i)
      if (!x->weights_file->verify(i))
        return false;
    return x->weights_file->has(which);
  };
  CHECK(verify_layers(0, 2));
  CHECK_FALSE(verify_layers(2, 3));
}

TEST_CASE("P8: a bundle with a missing or wrong chunk list is refused") {
  store_with_one here;
  auto list = here.file("weights.safetensors.chunks");
  auto text = read_file(list, 1 << 20);
  REQUIRE(text);
  auto wrong = *text;
  wrong[3] = wrong[3] == 'a' ? 'b' : 'a';
  REQUIRE(write_file(list, std::as_bytes(std::span{wrong})));
  CHECK_FALSE(here.open());
  std::filesystem::remove(list);
  CHECK_FALSE(here.open());
}

TEST_CASE("bundle: a part of a file with misaligned tensors is refused") {
  std::string header =
    R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
    R"("b":{"dtype":"I64","shape":[131072],)"
    R"("data_offsets":[3,1048579]}})";
  header.resize(rounded_up(header.size(), 8), ' ');
  uint64_t head = header.size();
  std::string file(reinterpret_cast<const char*>(&head), sizeof head);
  file += header + std::string(1048579, 'x');
  auto bytes = std::as_bytes(std::span{file});
  auto arrives = [&] {
    bundle out;
    out.info.layers.resize(2);
    out.info.layers[0].parameters = out.info.layers[1].parameters = 1;
    out.info.layers[0].parameter_bytes = 3;
    out.info.layers[1].parameter_bytes = 1048576;
    out.info.weights.bytes = file.size();
    out.weights_file = *arriving_file::make(
      "weights", file.size(), chunk_list::of(bytes), file_descriptor{});
    return std::make_shared<bundle>(std::move(out));
  };
  std::optional<result<void>> found;
  auto tell = [&](const result<void>& x) { found = x; };
  auto part = arrives();
  travelling::find_weights(part, 0, 1, tell);
  CHECK_FALSE(found);
  REQUIRE(part->weights_file->put(0, bytes.first(chunk_bytes)));
  REQUIRE(found);
  CHECK(found->failure().text.find("import it again") != std::string::npos);
  found.reset();
  auto whole = arrives();
  travelling::find_weights(whole, 0, 0, tell);
  REQUIRE(whole->weights_file->put(0, bytes.first(chunk_bytes)));
  CHECK_FALSE(found);
  REQUIRE(whole->weights_file->put(1, bytes.subspan(chunk_bytes)));
  REQUIRE(found);
  CHECK(*found);
  CHECK(whole->weights.size() == 2);
}

TEST_CASE("P8: a file used in place is verified again before it is served and "
          "given up if it has changed") {
  store_with_one here;
  auto x = here.open();
  REQUIRE_MESSAGE(x, why(x));
  auto used = std::make_shared<const bundle>(std::move(*x));
  auto& file = *used->weights_file;
  REQUIRE_FALSE(file.is_in_memory());
  std::vector<std::string> told;
  auto travels = make_bulk_content(
    used, [&](const error& why) { told.push_back(why.text); });
  REQUIRE_MESSAGE(travels, why(travels));
  for (size_t i = 0; i < file.chunks(); ++i)
    CHECK((*travels)->chunk(i)->view().size() > 0);
  {
    std::fstream disk{file.path(), std::ios::in | std::ios::out};
    disk.seekp(static_cast<std::streamoff>(chunk_bytes) + 7);
    disk.put('x');
  }
  CHECK((*travels)->chunk(0));
  auto changed = (*travels)->chunk(1);
  REQUIRE_FALSE(changed);
  CHECK(changed.failure().code == ec::bad_config);
  CHECK(file.is_given_up());
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("bytes 1048576 to 2097152 have the SHA-256 ")
        != std::string::npos);
  CHECK(told[0].find("expected 30e14955ebf13522") != std::string::npos);
}
