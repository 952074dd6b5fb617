// SPDX-License-Identifier: Apache-2.0
#include "simulator/real_bundles.hpp"

#include <cstring>

#include "models/import/draft.hpp"
#include "runtime/random.hpp"
#include "simulator/model.hpp"

namespace millrace::simulator {

namespace {

/// A number that nobody could guess in each sector.
tensor noise(random_stream random, uint64_t bytes) {
  std::string out(bytes, '\0');
  for (size_t at = 0; at < out.size(); at += 512) {
    auto x = random.next();
    std::memcpy(out.data() + at, &x, std::min(sizeof x, out.size() - at));
  }
  return *tensor::make(dtype::u8, {static_cast<int64_t>(bytes)},
                       shared_bytes::copy_of(out));
}

} // namespace

std::shared_ptr<const bundle> real_bundles::get(const std::string& model,
                                                uint64_t version,
                                                const simulated_model& x) {
  auto& made = made_[{model, version}];
  if (made)
    return made;
  auto info = manifest_of(model, version, x);
  model_parts parts;
  for (auto& layer : info.layers)
    parts.layers.push_back(
      {layer.name,
       layer.takes,
       {},
       "code of " + layer.name,
       {{"weight", noise(random_stream{version}.fork(model + " " + layer.name),
                         layer.parameter_bytes)}}});
  auto layers = std::exchange(info.layers, {});
  auto out = make_draft(std::move(info), std::move(parts));
  MILLRACE_ASSERT(out); // names of layers differ
  auto& content = *out->content;
  for (size_t i = 0; i < layers.size(); ++i)
    content.info.layers[i].gives = layers[i].gives;
  content.text = print_manifest(content.info);
  return made = out->content;
}

} // namespace millrace::simulator
