// SPDX-License-Identifier: Apache-2.0

/// \file
/// The list of keys that may connect. Each accepted entry has a role and a
/// distinct key, and the list is printed and read again as the same.

#include <set>

#include "tests/fuzz/frames.hpp"
#include "transport/keys/key_book.hpp"
#include "transport/keys/key_file.hpp"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto x = parse_allowed_keys({reinterpret_cast<const char*>(data), size}, "k");
  if (!x)
    return 0;
  std::set<std::string> keys;
  for (auto& [name, y] : x->keys)
    fuzz::require(y.role && is_key(y.public_key)
                    && keys.insert(y.public_key).second,
                  "each has a role, and a key of its own");
  auto again = parse_allowed_keys(print_allowed_keys(*x), "k");
  fuzz::require(again && again->keys == x->keys,
                "what was accepted comes back as it was");
  key_book book{*x};
  return 0;
}
