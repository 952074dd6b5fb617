// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/chunks.hpp"
#include "models/signature.hpp"

namespace millrace {

/// A tensor that a layer gives to later layers. `extents` are those for a
/// request of one row whose other free extents are 1; each further row adds
/// `per_row`.
struct passed_value {
  std::string name;
  dtype type = dtype::f32;
  std::vector<int64_t> extents;
  std::vector<int64_t> per_row; ///< same rank; empty: extents do not grow
  MILLRACE_FIELDS(passed_value, name, type, extents, per_row)
};

/// A parameter that a layer shares with an earlier layer, or has twice. The
/// weights file holds it once, among the parameters of the earlier layer.
struct shared_parameter {
  std::string name;   ///< in this layer
  uint64_t layer = 0; ///< number of the earlier layer, or of the same layer
  std::string of;     ///< name in the earlier layer
  MILLRACE_FIELDS(shared_parameter, name, layer, of)
};

/// One layer of a model: its code as TorchScript without parameters, and the
/// place of its parameters in the weights file. Tensors pass between layers by
/// name: the signature's inputs, and `gives` of earlier layers. The last layer
/// gives the signature's outputs, so its `gives` is empty. If one layer is the
/// whole model, `takes` is empty too: it takes all inputs.
struct layer_info {
  std::string name;
  std::string code; ///< file, relative to the bundle
  uint64_t code_bytes = 0;
  std::string code_sha256;
  /// Hash of the layer's parameter bytes; a key of caches.
  std::string parameters_sha256;
  /// Number of its tensors in the weights file, in order.
  uint64_t parameters = 0;
  uint64_t parameter_bytes = 0;
  std::vector<shared_parameter> shares; ///< beside its own parameters
  std::vector<std::string> takes;
  std::vector<passed_value> gives;
  MILLRACE_FIELDS(layer_info, name, code, code_bytes, code_sha256,
                  parameters_sha256, parameters, parameter_bytes, shares, takes,
                  gives)
};

/// A measured quality, and the data set.
struct accuracy_info {
  double value = 0; ///< fraction of right answers, 0 to 1
  std::string metric = "top-1";
  std::string data;
  MILLRACE_FIELDS(accuracy_info, value, metric, data)
};

/// A file of tensors. A weights file of more than one chunk has FILE.chunks
/// beside it, the text of its chunk_list.
struct tensors_info {
  std::string file;
  uint64_t bytes = 0;
  std::string sha256;
  /// Bytes of a chunk of a content without bytes; none: chunk_bytes.
  std::optional<uint64_t> chunk{};
  MILLRACE_FIELDS(tensors_info, file, bytes, sha256, chunk)
  uint64_t bytes_of_chunk() const { return chunk.value_or(chunk_bytes); }
};

/// The content of model.yaml: everything about a model but its bytes. The
/// `sha256` of a file is the hash of its chunk_list; in format 1 it was the
/// SHA-256 of its bytes.
struct manifest {
  uint32_t format = 0;
  std::string name;
  uint64_t version = 0;
  std::string application;
  std::string description;
  std::optional<accuracy_info> accuracy;
  std::string licence;
  std::string precision;
  std::string parent;    ///< NAME/VERSION it was derived from
  std::string generator; ///< program that made the bundle
  std::vector<std::string> labels;
  struct signature signature;
  bool stateful = false; ///< a request changes the results of later ones
  std::vector<layer_info> layers;
  tensors_info weights;
  /// Random inputs and the whole model's outputs at import, named "input/NAME"
  /// and "output/NAME".
  std::optional<tensors_info> samples;
  /// One row of inputs for warm-ups, which is sent with the manifest: a
  /// safetensors file in base64. Empty: zeros are used.
  std::string warm_up;
  MILLRACE_FIELDS(manifest, format, name, version, application, description,
                  accuracy, licence, precision, parent, generator, labels,
                  signature, stateful, layers, weights, samples, warm_up)
};

inline constexpr auto manifest_file = "model.yaml"; ///< in a bundle's folder
inline constexpr size_t max_manifest_bytes = 4u << 20;

inline constexpr uint32_t bundle_format = 2;
/// The oldest format that can be read.
inline constexpr uint32_t oldest_bundle_format = 1;

/// Parses a manifest and checks all that needs no other file: format, names,
/// sizes, paths that stay inside the bundle. `file` is its name in errors.
/// Errors: bad_config with file, line and key.
result<manifest> parse_manifest(const std::string& text,
                                const std::string& file);

std::string print_manifest(const manifest& info);

/// The first layer with parameters that layers [first, last) use. Their
/// parameters begin with those of that layer in the weights file.
size_t first_needed(const manifest& info, size_t first, size_t last);

/// A key of layers for cost profiles; independent of the parameters' values.
std::string layers_key(const std::vector<layer_info>& xs);

} // namespace millrace
