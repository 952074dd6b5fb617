// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include "models/bundle_store.hpp"
#include "models/chunks.hpp"
#include "models/import/draft.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/why.hpp"

namespace millrace::test {

/// A folder with one bundle, m/1, of three layers. Each layer has one parameter
/// slightly larger than a chunk.
class store_with_one {
public:
  store_with_one() {
    manifest info;
    info.format = bundle_format;
    info.name = "m";
    info.version = 1;
    info.signature = {{{"x", dtype::f32, {-1, 4}}},
                      {{"y", dtype::f32, {-1, 4}}}};
    model_parts parts;
    parts.inputs = {{"x", "Tensor"}};
    std::string before = "x";
    for (std::string name : {"a", "b", "c"}) {
      auto gives = name == "c" ? std::vector<std::string>{}
                               : std::vector<std::string>{"from " + name};
      std::vector<uint8_t> bytes(chunk_bytes + 64);
      bytes.back() = static_cast<uint8_t>(name[0] - 'a'); // each layer differs
      parts.layers.push_back(
        {name,
         {before},
         gives,
         "code of " + name,
         {{"weight",
           *tensor::make(dtype::u8, {static_cast<int64_t>(bytes.size())},
                         bytes_of(bytes))}}});
      before = "from " + name;
    }
    auto made = make_draft(std::move(info), std::move(parts));
    REQUIRE_MESSAGE(made, why(made));
    REQUIRE(bundle_store{folder.path()}.add(made->content->info, made->files));
  }

  result<bundle> open(verify how = verify::hashes) const {
    return bundle_store{folder.path()}.open("m", "", how);
  }

  std::string file(const std::string& name) const {
    return folder / ("m/1/" + name);
  }

  temporary_directory folder;
};

} // namespace millrace::test
