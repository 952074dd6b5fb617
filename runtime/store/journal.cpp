// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/journal.hpp"

#include <cstring>

#include <sodium.h>

#include "runtime/assert.hpp"
#include "runtime/store/little_endian.hpp"

namespace millrace {

namespace {

constexpr std::string_view marker = "MRJ1";
constexpr size_t before_at = 8;
constexpr size_t hash_at = 24;

/// Bounds the search for whole records in a damaged file: at most this many
/// times the file size is hashed. A file full of markers cannot take more time.
constexpr size_t search_factor = 4;

journal_hash hash_of(std::string_view head, std::string_view content,
                     std::string_view key) {
  auto bytes = [](std::string_view x) {
    return reinterpret_cast<const unsigned char*>(x.data());
  };
  crypto_generichash_state state;
  journal_hash out;
  crypto_generichash_init(&state, bytes(key), key.size(), out.size());
  crypto_generichash_update(&state, bytes(head), head.size());
  crypto_generichash_update(&state, bytes(content), content.size());
  crypto_generichash_final(&state, out.data(), out.size());
  return out;
}

journal_hash hash_at_offset(std::string_view x, size_t at) {
  journal_hash out;
  std::memcpy(out.data(), x.data() + at, out.size());
  return out;
}

/// A record at the start of a text with a correct hash; its link to the record
/// before is not checked.
struct found_record {
  journal_hash before{};
  journal_hash own{};
  std::string_view content;

  size_t bytes() const { return journal_overhead + content.size(); }
};

/// The content length in a record's head; nullopt for an invalid head.
std::optional<size_t> length_at(std::string_view x) {
  if (x.size() < journal_overhead || !x.starts_with(marker))
    return std::nullopt;
  auto n = number_at<uint32_t>(x, 4);
  if (n > journal_record_max || n > x.size() - journal_overhead)
    return std::nullopt;
  return n;
}

std::optional<found_record> record_at(std::string_view x,
                                      std::string_view key) {
  auto n = length_at(x);
  if (!n)
    return std::nullopt;
  found_record out;
  out.before = hash_at_offset(x, before_at);
  out.own = hash_at_offset(x, hash_at);
  out.content = x.substr(journal_overhead, *n);
  if (hash_of(x.substr(0, hash_at), out.content, key) != out.own)
    return std::nullopt;
  return out;
}

journal_damage look_behind(std::string_view file, size_t from,
                           std::string_view key) {
  journal_damage out{from, file.size(), true};
  // A write is one record, and is synced before the next write. A longer rest
  // is therefore not one torn write.
  if (file.size() - from > journal_overhead + journal_record_max)
    out.torn = false;
  auto most = search_factor * file.size();
  for (auto at = file.find(marker, from); at != std::string_view::npos;
       at = file.find(marker, at + 1)) {
    auto rest = file.substr(at);
    auto n = length_at(rest).value_or(0);
    if (n > most || record_at(rest, key)) {
      out.to = at; // or, at the search limit, near there
      out.torn = false;
      break;
    }
    most -= n;
  }
  return out;
}

} // namespace

std::string next_record(journal_end& end, std::string_view content,
                        std::string_view key) {
  MILLRACE_ASSERT(content.size() <= journal_record_max);
  std::string out;
  out.reserve(journal_overhead + content.size());
  out += marker;
  put_number(out, static_cast<uint32_t>(content.size()));
  out.append(reinterpret_cast<const char*>(end.last.data()), end.last.size());
  auto own = hash_of(out, content, key);
  out.append(reinterpret_cast<const char*>(own.data()), own.size());
  out += content;
  end = {end.bytes + out.size(), end.records + 1, own};
  return out;
}

journal_content read_journal(std::string_view file, std::string_view key) {
  journal_content out;
  while (out.end.bytes < file.size()) {
    auto x = record_at(file.substr(out.end.bytes), key);
    if (!x || x->before != out.end.last) {
      out.damage = look_behind(file, out.end.bytes, key);
      break;
    }
    out.records.push_back(x->content);
    out.end = {out.end.bytes + x->bytes(), out.end.records + 1, x->own};
  }
  return out;
}

} // namespace millrace
