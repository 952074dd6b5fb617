// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/arriving_file.hpp"
#include "models/manifest.hpp"
#include "models/safetensors.hpp"

namespace millrace {

/// A bundle ready to be loaded: the code is read, the weights are mapped or on
/// their way. Nothing that grows with the weights is parsed. Copies share code
/// and weights.
struct bundle {
  manifest info;
  std::string directory; ///< or its name in errors
  /// The bytes of model.yaml. Their SHA-256 is the content id of the bundle,
  /// for the manifest holds the hashes of all other files.
  std::string text;
  std::vector<shared_bytes> code;    ///< per layer
  std::vector<named_tensor> weights; ///< of all layers, in file order
  /// The file with the weights; it tracks which chunks are present and
  /// verified. Null for a bundle without weights, or opened by its sizes alone.
  std::shared_ptr<arriving_file> weights_file;
};

enum class verify : uint8_t {
  sizes,           ///< files exist and have the sizes in the manifest
  all_but_weights, ///< also every byte is verified but the weights', which are
                   ///< verified later, in place
  into_memory,     ///< the same, but weights are copied into memory as they are
                   ///< verified, and are independent of the file then
  hashes           ///< also every byte is verified
};

/// Opens NAME/VERSION/. `memory` creates the memory for weights
/// (verify::into_memory).
/// Errors: unavailable when a file is missing; bad_config when the manifest is
/// invalid or bytes differ from it, naming the file; errors of `memory`.
result<bundle> open_bundle(const std::string& directory, verify how,
                           const memory_maker& memory = arriving_file::make);

/// Points `weights` at their places in the file, once the file's header is
/// present. Returns false if some tensors are not aligned: then the whole file
/// must be present first.
/// Errors: bad_config.
result<bool> find_weights(bundle& opened);

/// Whether a file has the `sha256` that the manifest gives for it.
bool is_right(const manifest& info, const_bytes content,
              const std::string& sha256);

/// The samples that the manifest names; empty if it names none.
/// Errors: as open_bundle with verify::hashes.
result<std::vector<named_tensor>> open_samples(const bundle& opened);

/// The weights of layers [first, last), in order. Behind the own weights of
/// each layer come its shared ones, under its own name for them. A tensor
/// shared by two of the layers is listed twice, with the same memory.
std::vector<named_tensor> weights_of(const bundle& opened, size_t first,
                                     size_t last);

/// The bytes of the weights of layers [first, last), each counted once.
uint64_t weight_bytes(const bundle& opened, size_t first, size_t last);

/// The chunks of the weights file that hold the weights of these layers.
chunk_range chunks_of(const bundle& opened, size_t first, size_t last);

/// Passes the bytes of these layers' weights to `to`, 16 chunks at a time, as
/// soon as they are present: at once, or on the thread that brings the last
/// chunk. Chunks that never arrive are not reported.
void hand_on_weights(const bundle& opened, size_t first, size_t last,
                     const std::function<void(const_bytes)>& to);

} // namespace millrace
