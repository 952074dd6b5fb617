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

/// A bundle ready to be loaded: code read, weights mapped or on their way,
/// nothing parsed that grows with the weights. Copies share those.
struct bundle {
  manifest info;
  std::string directory; ///< or what errors call it by
  /// What model.yaml says, byte by byte: its SHA-256 is what the bundle is
  /// known by, for all else is known by what it says.
  std::string text;
  std::vector<shared_bytes> code;    ///< per layer
  std::vector<named_tensor> weights; ///< all layers', in file order
  /// Where these lie, and what tells which of them are there and right. Null
  /// where there are none, and where a bundle was opened by its sizes alone.
  std::shared_ptr<arriving_file> weights_file;
};

enum class verify : uint8_t {
  sizes,           ///< files are there and as long as the manifest says
  all_but_weights, ///< and every byte is right, but those are yet to be
                   ///< verified, where they lie
  into_memory,     ///< the same, but they come into memory by being verified,
                   ///< and stay as they were, whatever happens to the file
  hashes           ///< and every byte is right
};

/// Opens NAME/VERSION/. `memory` is what its weights come into, if they do.
/// Errors: unavailable when a file is missing; bad_config when the manifest is
/// wrong or bytes differ from it, naming the file; what `memory` refuses.
result<bundle> open_bundle(const std::string& directory, verify how,
                           const memory_maker& memory = arriving_file::make);

/// Has the weights be where they are in their file, once what that begins with
/// is there. False: some lie askew, so all of it has to be there first.
/// Errors: bad_config.
result<bool> find_weights(bundle& x);

/// Whether a file is what the manifest says of it, which calls that its sha256.
bool is_right(const manifest& x, const_bytes content,
              const std::string& sha256);

/// What the manifest calls samples; none where it has none.
/// Errors: as open_bundle's with hashes.
result<std::vector<named_tensor>> open_samples(const bundle& x);

/// The weights of layers [first, last), in order; behind those of each layer
/// the ones that it shares, under its own name for them. What two of the layers
/// share is there twice, in the same memory.
std::vector<named_tensor> weights_of(const bundle& x, size_t first,
                                     size_t last);

/// The bytes of the weights of layers [first, last), each counted once.
uint64_t weight_bytes(const bundle& x, size_t first, size_t last);

/// The chunks of the weights file that these lie in.
chunk_range chunks_of(const bundle& x, size_t first, size_t last);

/// Hands on what the weights file has of these, 16 chunks at a time, as soon as
/// they are there: at once, or on the thread that brings the last of them. What
/// never comes is not spoken of.
void hand_on_weights(const bundle& x, size_t first, size_t last,
                     const std::function<void(const_bytes)>& to);

} // namespace millrace
