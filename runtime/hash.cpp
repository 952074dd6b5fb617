// SPDX-License-Identifier: Apache-2.0
#include "runtime/hash.hpp"

#include <sodium.h>

namespace millrace {

std::string sha256_hex(const_bytes x) {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(digest, reinterpret_cast<const unsigned char*>(x.data()),
                     x.size());
  char hex[2 * sizeof digest + 1];
  sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
  return hex;
}

} // namespace millrace
