// SPDX-License-Identifier: Apache-2.0

/// \file
/// A cluster's config and a scenario, which are read from the same bytes. An
/// accepted config is printed and read again as the same.

#include "config/config.hpp"
#include "config/scenario.hpp"
#include "tests/fuzz/frames.hpp"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text{reinterpret_cast<const char*>(data), size};
  if (auto x = parse_config(text, "c")) {
    auto printed = print_config(*x);
    auto again = parse_config(printed, "c");
    fuzz::require(again && print_config(*again) == printed,
                  "what was accepted comes back as it was");
  }
  static_cast<void>(parse_scenario(text, "s"));
  return 0;
}
