// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/bundle.hpp"

/// \file
/// A bundle that arrives in pieces from another node: first its small files,
/// then the chunks of its weights.
namespace millrace::travelling {

/// The content id of the bundle: the SHA-256 of its manifest.
std::string id_of(const bundle& opened);

/// Its manifest, its chunk list, and its code, layer by layer.
/// Errors: bad_request for format 1, which has no chunk list.
result<std::vector<shared_bytes>> pieces_of(const bundle& opened);

/// Creates a bundle from these pieces. `memory` creates the file for the
/// weights, usually with no chunk present.
/// Errors: bad_config when a piece does not match the id or the manifest;
/// errors of `memory`.
result<bundle> begin(const std::string& id,
                     const std::vector<shared_bytes>& pieces,
                     const memory_maker& memory = arriving_file::make);

/// The chunks with the header of the weights file.
chunk_range first_chunks(const bundle& opened);

/// The chunks with the weights of layers [first, last), by the manifest.
chunk_range chunks_by_manifest(const manifest& info, size_t first, size_t last);

/// The chunks that these layers need, by the manifest: the header, then their
/// weights. Last 0: to the end. Layers that the model does not have need
/// nothing.
std::vector<chunk_range> chunks_for(const bundle& opened, size_t first,
                                    size_t last);

/// Whether all these chunks are present.
bool has(const bundle& opened, size_t first, size_t last);

/// Points the weights at their places once enough of chunks_for these layers is
/// present, and calls `tell`, at once or on the thread that brings the last
/// chunk. A bundle that is destroyed before may be skipped.
/// Errors: bad_config for a file with unaligned tensors if only some layers
/// arrive; as millrace::find_weights; the reason of give_up().
void find_weights(const std::shared_ptr<bundle>& opened, size_t first,
                  size_t last, std::function<void(result<void>)> tell);

} // namespace millrace::travelling
