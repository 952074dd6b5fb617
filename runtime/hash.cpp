// SPDX-License-Identifier: Apache-2.0
#include "runtime/hash.hpp"

#include <new>

#include <openssl/evp.h>

namespace millrace {

std::string sha256_hex(const_bytes x) {
  constexpr char digits[] = "0123456789abcdef";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int n = 0;
  if (EVP_Digest(x.data(), x.size(), digest, &n, EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc{}; // nothing else can be wrong with that
  std::string out;
  for (unsigned int i = 0; i < n; ++i)
    out += {digits[digest[i] >> 4], digits[digest[i] & 15]};
  return out;
}

} // namespace millrace
