// SPDX-License-Identifier: Apache-2.0
#include "millrace/real_bundles.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "models/chunks.hpp"
#include "models/manifest.hpp"
#include "models/safetensors.hpp"
#include "runtime/hash.hpp"
#include "runtime/units.hpp"
#include "simulator/model.hpp"

namespace millrace {

namespace {

constexpr auto weights_name = "weights.safetensors";

result<void> write(const std::string& path, const std::string& text) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path{path}.parent_path(),
                                      failed);
  std::ofstream file{path, std::ios::binary};
  file << text;
  file.close();
  if (!file)
    return error{ec::unavailable, path + " cannot be written", {}};
  return {};
}

constexpr uint64_t most_weights = uint64_t{1} << 30;

/// A bundle of one layer that every host has is never opened for its weights.
bool needs_weights(const simulated_model& x) {
  return !x.on.empty() || x.layers > 1;
}

/// Different bytes for each layer.
std::string weights_of(const layer_info& layer) {
  std::string out(layer.parameter_bytes, '\0');
  uint64_t state = std::hash<std::string>{}(layer.name) | 1;
  for (size_t i = 0; i < out.size(); i += sizeof state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(out.data() + i, &state, std::min(sizeof state, out.size() - i));
  }
  return out;
}

/// Makes the weights file, and completes the manifest's entry of each layer.
result<std::string> make_weights(manifest& of) {
  std::vector<tensor_entry> tensors;
  for (auto& layer : of.layers)
    tensors.push_back({layer.name + "/weight",
                       dtype::u8,
                       {static_cast<int64_t>(layer.parameter_bytes)},
                       layer.parameter_bytes});
  auto head = write_safetensors_head(tensors);
  if (!head)
    return head.failure();
  std::string out = std::move(*head);
  for (auto& layer : of.layers) {
    auto bytes = weights_of(layer);
    layer.parameters = 1;
    layer.parameters_sha256 = sha256_hex(std::as_bytes(std::span{bytes}));
    out += bytes;
  }
  return out;
}

} // namespace

result<void> write_real_bundle(const std::string& folder,
                               const std::string& model,
                               const simulated_model& simulated) {
  auto content = simulator::manifest_of(model, 1, simulated);
  auto to = folder + "/" + model + "/1/";
  for (auto& layer : content.layers) {
    auto code = "code of " + layer.name;
    layer.code_bytes = code.size();
    layer.code_sha256 = sha256_hex(std::as_bytes(std::span{code}));
    if (auto done = write(to + layer.code, code); !done)
      return done;
  }
  if (needs_weights(simulated)) {
    if (simulated.bytes.value > most_weights)
      return error{ec::bad_request,
                   "bundles." + model + ".bytes: a real run writes this many"
                     + " bytes of weights; expected at most "
                     + format_bytes(most_weights),
                   {}};
    content.precision = "U8";
    auto weights = make_weights(content);
    if (!weights)
      return weights.failure();
    auto chunks = chunk_list::of(std::as_bytes(std::span{*weights}));
    content.weights = {weights_name, weights->size(), chunks.file_hash(), {}};
    if (auto done = write(to + weights_name, *weights); !done)
      return done;
    auto list = to + weights_name + chunk_list_suffix;
    if (auto done = write(list, chunks.text()); !done)
      return done;
  }
  return write(to + manifest_file, print_manifest(content));
}

} // namespace millrace
