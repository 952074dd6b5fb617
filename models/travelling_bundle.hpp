// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/bundle.hpp"

/// \file
/// Where a bundle comes in pieces from somebody else: what is small of it, then
/// the chunks of its weights.
namespace millrace::travelling {

/// What the bundle is known by.
std::string id_of(const bundle& x);

/// Its manifest, its list of chunks, and its code, layer by layer.
/// Errors: bad_request of one of format 1, whose weights have no such list.
result<std::vector<shared_bytes>> pieces_of(const bundle& x);

/// A bundle of these pieces, whose weights are as the memory that is made for
/// them: none of them is there, as a rule.
/// Errors: bad_config for what is not what the id, or the manifest, says; what
/// `memory` refuses.
result<bundle> begin(const std::string& id,
                     const std::vector<shared_bytes>& pieces,
                     const memory_maker& memory = arriving_file::make);

/// The chunks that say where the weights are.
chunk_range first_chunks(const bundle& x);

/// The chunks of layers [first, last)'s weights, by its manifest.
chunk_range chunks_by_manifest(const manifest& x, size_t first, size_t last);

/// What these layers need, by its manifest: what says where weights are, then
/// theirs. Last 0: to its end; layers that it does not have need nothing.
std::vector<chunk_range> chunks_for(const bundle& x, size_t first, size_t last);

/// Whether all of that is there.
bool has(const bundle& x, size_t first, size_t last);

/// Finds out where its weights will lie, once enough of chunks_for these layers
/// is there, and tells, at once or on the thread that brings that. One that
/// nobody has any more need not be found.
/// Errors: bad_config of a file whose tensors lie askew, if only some layers
/// come; as millrace::find_weights; why what has been given up was.
void find_weights(const std::shared_ptr<bundle>& x, size_t first, size_t last,
                  std::function<void(result<void>)> tell);

} // namespace millrace::travelling
