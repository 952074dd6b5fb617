// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"

/// \file
/// What hosts say on their bulk endpoints. A content is a bundle, known by the
/// SHA-256 of its manifest: its head is manifest, list of chunks and code, and
/// behind that come the chunks of its weights.
namespace millrace {

/// Who goes first where not all can: what a start waits for, then what makes
/// whole copies of parts, then what is fetched for later.
enum class transfer_rank : uint8_t { start, completion, prefetch };

constexpr auto names_of(transfer_rank) {
  return name_table{"start", "completion", "prefetch"};
}

/// To who has some of a content, or is getting it: give me the head, or a
/// chunk, as soon as you have it. Answered by that, or by bulk_refusal.
struct bulk_ask {
  std::string content;
  std::string token; ///< the giver's own, as its controller was told
  transfer_rank rank = transfer_rank::start;
  bool head = false;
  uint64_t chunk = 0; ///< unless it is the head
  MILLRACE_FIELDS(bulk_ask, content, token, rank, head, chunk)
};

/// Comes with the head's pieces, a raw frame each.
struct bulk_head {
  std::string content;
  MILLRACE_FIELDS(bulk_head, content)
};

/// Comes with the chunk's bytes, in one raw frame.
struct bulk_chunk {
  std::string content;
  uint64_t chunk = 0;
  MILLRACE_FIELDS(bulk_chunk, content, chunk)
};

/// Nothing more of this content comes from here.
struct bulk_refusal {
  std::string content;
  std::string why;
  MILLRACE_FIELDS(bulk_refusal, content, why)
};

} // namespace millrace
