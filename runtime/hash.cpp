// SPDX-License-Identifier: Apache-2.0
#include "runtime/hash.hpp"

#include <new>

#include <openssl/evp.h>

namespace millrace {

namespace {

constexpr std::string_view digits = "0123456789abcdef";

} // namespace

sha256_digest sha256(const_bytes content) {
  sha256_digest out;
  auto* to = reinterpret_cast<unsigned char*>(out.data());
  if (EVP_Digest(content.data(), content.size(), to, nullptr, EVP_sha256(),
                 nullptr)
      != 1)
    throw std::bad_alloc{}; // EVP_Digest has no other cause of failure here
  return out;
}

std::string to_hex(const sha256_digest& digest) {
  std::string out;
  out.reserve(2 * digest.size());
  for (auto byte : digest) {
    auto n = std::to_integer<size_t>(byte);
    out += {digits[n >> 4], digits[n & 15]};
  }
  return out;
}

std::string sha256_hex(const_bytes content) {
  return to_hex(sha256(content));
}

std::optional<sha256_digest> sha256_from_hex(std::string_view hex) {
  sha256_digest out;
  if (hex.size() != 2 * out.size())
    return std::nullopt;
  for (size_t i = 0; i < out.size(); ++i) {
    auto high = digits.find(hex[2 * i]);
    auto low = digits.find(hex[2 * i + 1]);
    if (high == digits.npos || low == digits.npos)
      return std::nullopt;
    out[i] = static_cast<std::byte>(high << 4 | low);
  }
  return out;
}

} // namespace millrace
