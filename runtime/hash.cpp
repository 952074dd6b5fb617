// SPDX-License-Identifier: Apache-2.0
#include "runtime/hash.hpp"

#include <new>

#include <openssl/evp.h>

namespace millrace {

namespace {

constexpr std::string_view digits = "0123456789abcdef";

} // namespace

sha256_digest sha256(const_bytes x) {
  sha256_digest out;
  auto* to = reinterpret_cast<unsigned char*>(out.data());
  if (EVP_Digest(x.data(), x.size(), to, nullptr, EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc{}; // nothing else can be wrong with that
  return out;
}

std::string to_hex(const sha256_digest& x) {
  std::string out;
  out.reserve(2 * x.size());
  for (auto byte : x) {
    auto n = std::to_integer<size_t>(byte);
    out += {digits[n >> 4], digits[n & 15]};
  }
  return out;
}

std::string sha256_hex(const_bytes x) {
  return to_hex(sha256(x));
}

std::optional<sha256_digest> sha256_from_hex(std::string_view x) {
  sha256_digest out;
  if (x.size() != 2 * out.size())
    return std::nullopt;
  for (size_t i = 0; i < out.size(); ++i) {
    auto high = digits.find(x[2 * i]);
    auto low = digits.find(x[2 * i + 1]);
    if (high == digits.npos || low == digits.npos)
      return std::nullopt;
    out[i] = static_cast<std::byte>(high << 4 | low);
  }
  return out;
}

} // namespace millrace
