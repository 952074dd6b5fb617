// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/npy.hpp"
#include "models/safetensors.hpp"
#include "tests/support/decode_hostile.hpp"
#include "tests/support/hostile_files.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("P11: each hostile tensor has its one answer, which says what it is"
          " and what it needs") {
  auto all = hostile_tensors();
  REQUIRE(all.size() > 30);
  for (auto& x : all)
    check_decoding(x);
}

TEST_CASE("P11: each hostile weights file is refused with what is wrong") {
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

TEST_CASE("P11: arrays of Python objects are refused, whatever they hold") {
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
