// SPDX-License-Identifier: Apache-2.0
#include "transport/describe.hpp"

#include <utility>

#include "models/travelling_bundle.hpp"

namespace millrace {

model_info describe(const manifest& info, std::vector<std::string> aliases) {
  model_info out;
  out.model = info.name;
  out.version = info.version;
  out.application = info.application;
  if (info.accuracy)
    out.accuracy = info.accuracy->value;
  out.bytes = info.weights.bytes;
  out.chunk = info.weights.bytes_of_chunk();
  for (auto& layer : info.layers)
    out.layer_bytes.push_back(layer.parameter_bytes);
  out.labels = info.labels;
  out.signature = info.signature;
  out.layers_key = layers_key(info.layers);
  out.aliases = std::move(aliases);
  return out;
}

model_info describe(const bundle& opened, std::vector<std::string> aliases) {
  auto out = describe(opened.info, std::move(aliases));
  if (opened.info.format >= 2)
    out.content = travelling::id_of(opened);
  return out;
}

} // namespace millrace
