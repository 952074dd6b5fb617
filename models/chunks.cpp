// SPDX-License-Identifier: Apache-2.0
#include "models/chunks.hpp"

#include <algorithm>

#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr size_t line = 2 * sizeof(sha256_digest) + 1;

} // namespace

chunk_list chunk_list::of(const_bytes file) {
  chunk_list out;
  for (; !file.empty(); file = file.subspan(std::min(file.size(), chunk_bytes)))
    out.hashes_.push_back(
      sha256(file.first(std::min(file.size(), chunk_bytes))));
  return out;
}

chunk_list chunk_list::of_identity(const std::string& content, uint64_t bytes,
                                   uint64_t chunk) {
  chunk_list out;
  out.chunk_ = chunk;
  for (uint64_t i = 0; i < chunks_in(bytes, chunk); ++i) {
    auto identity = content + " " + std::to_string(i) + " "
                    + std::to_string(std::min(chunk, bytes - i * chunk));
    out.hashes_.push_back(sha256(std::as_bytes(std::span{identity})));
  }
  return out;
}

result<chunk_list> chunk_list::read(std::string_view text, uint64_t bytes,
                                    const std::string& hash, uint64_t chunk) {
  auto n = chunks_in(bytes, chunk);
  if (text.size() % line != 0 || text.size() / line != n)
    return error{ec::bad_config, "expected " + std::to_string(n)
                                   + " lines of 64 hexadecimal digits, found "
                                   + std::to_string(text.size()) + " bytes"};
  chunk_list out;
  out.chunk_ = chunk;
  out.hashes_.reserve(n);
  for (; !text.empty(); text.remove_prefix(line)) {
    auto digest = sha256_from_hex(text.substr(0, line - 1));
    if (!digest || text[line - 1] != '\n')
      return error{ec::bad_config, "expected a line of 64 hexadecimal digits,"
                                   " found "
                                     + shown(text.substr(0, line - 1))};
    out.hashes_.push_back(*digest);
  }
  if (out.file_hash() != hash)
    return error{ec::bad_config, "its SHA-256 is not the manifest's"};
  return out;
}

result<chunk_list> chunk_list::of_short_file(uint64_t bytes,
                                             const std::string& hash,
                                             uint64_t chunk) {
  MILLRACE_ASSERT(bytes <= chunk);
  auto digest = sha256_from_hex(hash);
  if (!digest)
    return error{ec::bad_config,
                 "expected 64 hexadecimal digits, found " + shown(hash)};
  chunk_list out;
  out.chunk_ = chunk;
  if (bytes > 0)
    out.hashes_.push_back(*digest);
  return out;
}

std::string chunk_list::text() const {
  std::string out;
  out.reserve(hashes_.size() * line);
  for (auto& x : hashes_)
    out += to_hex(x) + '\n';
  return out;
}

std::string chunk_list::file_hash() const {
  if (hashes_.size() == 1)
    return to_hex(hashes_.front());
  auto list = text();
  return sha256_hex(std::as_bytes(std::span{list}));
}

} // namespace millrace
