// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"

/// \file
/// Messages between the bulk endpoints of hosts. A content is a bundle,
/// identified by the SHA-256 of its manifest. Its head holds the manifest, the
/// list of chunks and the code; its chunks hold the weights.
namespace millrace {

/// Priority of a transfer, highest first: `start` for a replica that is
/// starting, `completion` for layers that make a partial copy whole, `prefetch`
/// for a bundle that may be needed later.
enum class transfer_rank : uint8_t { start, completion, prefetch };

constexpr auto names_of(transfer_rank) {
  return name_table{"start", "completion", "prefetch"};
}

/// Requests the head or one chunk of a content from a host that has a part of
/// the content, or is fetching it. The host answers as soon as it has that
/// piece, with bulk_head, bulk_chunk or bulk_refusal.
struct bulk_ask {
  std::string content;
  std::string token; ///< of the serving host, from its content report
  transfer_rank rank = transfer_rank::start;
  bool head = false;
  uint64_t chunk = 0; ///< number of the chunk; not used with `head`
  MILLRACE_FIELDS(bulk_ask, content, token, rank, head, chunk)
};

/// Answer with a head: one raw frame per piece.
struct bulk_head {
  std::string content;
  MILLRACE_FIELDS(bulk_head, content)
};

/// Answer with a chunk: its bytes in one raw frame.
struct bulk_chunk {
  std::string content;
  uint64_t chunk = 0;
  MILLRACE_FIELDS(bulk_chunk, content, chunk)
};

/// The sender serves no more of this content.
struct bulk_refusal {
  std::string content;
  std::string why;
  MILLRACE_FIELDS(bulk_refusal, content, why)
};

} // namespace millrace
