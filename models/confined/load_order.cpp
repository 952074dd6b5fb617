// SPDX-License-Identifier: Apache-2.0
#include "models/confined/load_order.hpp"

namespace millrace::confined {

std::string name_of(const stage_settings& settings) {
  return settings.content->directory + " "
         + std::to_string(settings.first_layer) + " "
         + std::to_string(settings.last_layer);
}

result<load_order> make_load_order(const stage_settings& settings) {
  auto manifest = print_manifest(settings.content->info);
  std::vector<const_bytes> parts{std::as_bytes(std::span{manifest})};
  load_order out;
  out.what.packed_bytes = manifest.size();
  for (auto& code : settings.content->code) {
    parts.push_back(code.view());
    out.what.packed_bytes += code.size();
  }
  auto packed = seal_in_memory(parts);
  if (!packed)
    return packed.failure();
  out.packed = std::move(*packed);
  out.files.push_back(out.packed.get());
  if (auto& weights = settings.content->weights_file) {
    out.files.push_back(weights->file().get());
    out.what.weights_bytes = weights->bytes();
  }
  out.what.trusted = settings.trusted;
  out.what.in_background = settings.in_background;
  out.what.manifest_bytes = manifest.size();
  out.what.first_layer = settings.first_layer;
  out.what.last_layer = settings.last_layer;
  out.what.max_batch = settings.max_batch;
  out.what.memory = settings.memory.value;
  out.what.threads = settings.threads;
  out.what.on_gpu = settings.gpu.has_value();
  out.what.place = settings.gpu.value_or(gpu_place{});
  return out;
}

} // namespace millrace::confined
