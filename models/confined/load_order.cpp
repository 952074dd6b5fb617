// SPDX-License-Identifier: Apache-2.0
#include "models/confined/load_order.hpp"

namespace millrace::confined {

std::string name_of(const stage_settings& x) {
  return x.content->directory + " " + std::to_string(x.first_layer) + " "
         + std::to_string(x.last_layer);
}

result<load_order> make_load_order(const stage_settings& x) {
  auto manifest = print_manifest(x.content->info);
  std::vector<const_bytes> parts{std::as_bytes(std::span{manifest})};
  load_order out;
  out.what.packed_bytes = manifest.size();
  for (auto& code : x.content->code) {
    parts.push_back(code.view());
    out.what.packed_bytes += code.size();
  }
  auto packed = seal_in_memory(parts);
  if (!packed)
    return packed.failure();
  out.packed = std::move(*packed);
  out.files.push_back(out.packed.get());
  if (auto& weights = x.content->weights_file) {
    out.files.push_back(weights->file().get());
    out.what.weights_bytes = weights->bytes();
  }
  out.what.trusted = x.trusted;
  out.what.in_background = x.in_background;
  out.what.manifest_bytes = manifest.size();
  out.what.first_layer = x.first_layer;
  out.what.last_layer = x.last_layer;
  out.what.max_batch = x.max_batch;
  out.what.memory = x.memory.value;
  out.what.threads = x.threads;
  out.what.on_gpu = x.gpu.has_value();
  out.what.place = x.gpu.value_or(gpu_place{});
  return out;
}

} // namespace millrace::confined
