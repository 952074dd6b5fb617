// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>

#include "models/npy.hpp"
#include "models/safetensors.hpp"
#include "tests/support/decode_hostile.hpp"
#include "tests/support/hostile_files.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("P11: each hostile tensor is refused with a specific error that "
          "names its size") {
  auto all = hostile_tensors();
  REQUIRE(all.size() > 30);
  for (auto& x : all)
    check_decoding(x);
}

TEST_CASE("P11: each hostile weights file is refused with a specific error") {
  for (auto& x : hostile_weights()) {
    INFO(x.item);
    auto file = shared_bytes::copy_of(x.content);
    std::optional<error> why;
    {
      allocation_meter meter;
      if (auto read = read_safetensors(file); !read)
        why = read.failure();
      CHECK(meter.peak() <= 4 * file.size() + (64u << 10));
    }
    REQUIRE(why);
    CHECK(why->text == "safetensors: " + x.says);
    CHECK(why->code == ec::bad_request);
  }
}

TEST_CASE("P11: weights of more than 100000 tensors are refused") {
  auto refusal = [](int tensors) {
    std::string header = "{";
    for (int i = 0; i < tensors; ++i)
      header += "\"" + std::to_string(i)
                + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
    header.back() = '}';
    uint64_t n = header.size();
    std::string file(sizeof n, '\0');
    std::memcpy(file.data(), &n, sizeof n);
    auto x = read_safetensors(shared_bytes::copy_of(file + header));
    return x ? std::string{} : x.failure().text;
  };
  CHECK(refusal(100'000) == "");
  CHECK(refusal(100'001) == "safetensors: more than 100000 tensors");
}

TEST_CASE("P11: arrays of Python objects are refused") {
  for (auto type : {"'|O'", "'O'", "[('a', '|O')]", "'|S4'", "'>f4'", "''"}) {
    CAPTURE(type);
    auto text = *write_npy(floats({2, 3}));
    auto header = std::string{"{'descr': "} + type
                  + ", 'fortran_order': False, 'shape': (2, 3), }";
    header.resize(118, ' ');
    text.replace(10, 118, header);
    auto x = read_npy(shared_bytes::copy_of(text));
    REQUIRE_FALSE(x);
    CHECK(x.failure().text.find("dtype") != std::string::npos);
  }
}
