// SPDX-License-Identifier: Apache-2.0
#include "actors/router/poison_list.hpp"

#include <algorithm>

#include "runtime/hash.hpp"

namespace millrace {

namespace {

constexpr size_t seen_of_ends = 64; ///< bytes

std::string ends_of(const tensor_list& xs) {
  if (xs.empty())
    return {};
  auto text = xs.front().data.text();
  auto n = std::min(seen_of_ends, text.size());
  return std::string{text.substr(0, n)}
         + std::string{text.substr(text.size() - n)};
}

/// SHA-256 over type, shape and data of all tensors.
std::string hash_of(const tensor_list& xs) {
  std::string all;
  for (auto& x : xs)
    all += to_string(x) + sha256_hex(x.data.view());
  return sha256_hex(std::as_bytes(std::span{all}));
}

} // namespace

std::string poison_list::add(const tensor_list& inputs) {
  auto name = hash_of(inputs);
  entries_.push_back({bytes_of(inputs), ends_of(inputs), name});
  if (entries_.size() > most_)
    entries_.pop_front();
  return name;
}

bool poison_list::contains(const tensor_list& inputs) const {
  if (entries_.empty())
    return false;
  auto bytes = bytes_of(inputs);
  auto ends = ends_of(inputs);
  std::string sha256;
  return std::any_of(entries_.begin(), entries_.end(), [&](auto& x) {
    if (x.bytes != bytes || x.ends != ends)
      return false;
    if (sha256.empty())
      sha256 = hash_of(inputs);
    return x.sha256 == sha256;
  });
}

} // namespace millrace
