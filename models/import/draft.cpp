// SPDX-License-Identifier: Apache-2.0
#include "models/import/draft.hpp"

#include "models/chunks.hpp"
#include "runtime/hash.hpp"

namespace millrace {

namespace {

constexpr auto weights_file = "weights.safetensors";

/// "layers/007.pt"
std::string code_file(size_t layer) {
  auto number = std::to_string(layer);
  number.insert(0, 3 - std::min<size_t>(3, number.size()), '0');
  return "layers/" + number + ".pt";
}

/// What layers call the model's inputs, as its signature does.
void rename_inputs(model_parts& x, const signature& s) {
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < s.inputs.size() && i < x.inputs.size(); ++i)
    names[x.inputs[i].name] = s.inputs[i].name;
  for (auto& layer : x.layers)
    for (auto& name : layer.takes)
      if (auto i = names.find(name); i != names.end())
        name = i->second;
}

/// Writes the weights' file, and gives it to the bundle as if that had been
/// opened from it. Each layer's lie one after the other at the file's end.
result<void> add_weights(draft& x) {
  auto& [content, files] = x;
  auto text = write_safetensors(content->weights);
  if (!text)
    return text.failure();
  content->info.weights = add_tensors(x, weights_file, std::move(*text));
  auto bytes = std::as_bytes(std::span{files[weights_file]});
  auto rest = bytes.last(bytes_of(content->weights));
  auto next = content->weights.begin();
  for (auto& layer : content->info.layers) {
    size_t n = 0;
    for (uint64_t i = 0; i < layer.parameters; ++i)
      n += (next++)->value.data.size();
    layer.parameters_sha256 = sha256_hex(rest.first(n));
    rest = rest.subspan(n);
  }
  auto chunks = chunk_list::of(bytes);
  if (chunks.size() > 1)
    files[std::string{weights_file} + chunk_list_suffix] = chunks.text();
  auto room = arriving_file::make(weights_file, bytes.size(), chunks);
  if (!room)
    return room.failure();
  for (size_t i = 0; i < chunks.size(); ++i) {
    auto left = bytes.subspan(i * chunk_bytes);
    auto done =
      (*room)->put(i, left.first(std::min<size_t>(left.size(), chunk_bytes)));
    if (!done)
      return done;
  }
  content->weights_file = std::move(*room);
  return {};
}

} // namespace

tensors_info add_tensors(draft& x, const std::string& file, std::string text) {
  auto& kept = x.files[file] = std::move(text);
  auto bytes = std::as_bytes(std::span{kept});
  return {file, bytes.size(), chunk_list::of(bytes).file_hash()};
}

result<draft> make_draft(manifest info, model_parts parts) {
  rename_inputs(parts, info.signature);
  draft out{std::make_shared<bundle>(), {}};
  auto& content = *out.content;
  for (auto& layer : parts.layers) {
    auto file = code_file(info.layers.size());
    auto code = shared_bytes::copy_of(layer.code);
    auto& known = info.layers.emplace_back(
      layer_info{layer.name,
                 file,
                 code.size(),
                 chunk_list::of(code.view()).file_hash(),
                 "",
                 layer.parameters.size(),
                 bytes_of(layer.parameters),
                 layer.takes,
                 {}});
    for (auto& value : layer.gives)
      known.gives.push_back({std::move(value), {}, {}, {}});
    for (auto& p : layer.parameters)
      content.weights.push_back(
        {layer.name + "/" + p.name, std::move(p.value)});
    content.code.push_back(std::move(code));
    out.files[file] = std::move(layer.code);
  }
  info.precision =
    content.weights.empty()
      ? "F32"
      : std::string{to_string(content.weights.front().value.type)};
  content.info = std::move(info);
  if (!content.weights.empty())
    if (auto done = add_weights(out); !done)
      return done.failure();
  return out;
}

} // namespace millrace
