// SPDX-License-Identifier: Apache-2.0

/// \file
/// A bundle's manifest. Paths of an accepted manifest stay inside its bundle,
/// and it is printed and read again as the same.

#include "models/bundle.hpp"
#include "tests/fuzz/frames.hpp"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto x = parse_manifest({reinterpret_cast<const char*>(data), size}, "m");
  if (!x)
    return 0;
  auto inside = [](const std::string& path) {
    fuzz::require(!path.starts_with('/') && path.find("..") == path.npos,
                  "a path stays inside the bundle");
  };
  inside(x->weights.file);
  for (auto& layer : x->layers)
    inside(layer.code);
  auto again = parse_manifest(print_manifest(*x), "m");
  fuzz::require(again && print_manifest(*again) == print_manifest(*x),
                "what was accepted comes back as it was");
  return 0;
}
