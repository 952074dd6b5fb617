// SPDX-License-Identifier: Apache-2.0
#include "models/import/draft.hpp"

#include <algorithm>
#include <optional>

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

/// Replaces forward's argument names in layers by the signature's names.
void rename_inputs(model_parts& x, const signature& s) {
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < s.inputs.size() && i < x.inputs.size(); ++i)
    names[x.inputs[i].name] = s.inputs[i].name;
  for (auto& layer : x.layers)
    for (auto& name : layer.takes)
      if (auto i = names.find(name); i != names.end())
        name = i->second;
}

/// The first occurrence of a parameter: layer and name.
using parameter_place = std::pair<size_t, std::string>;

/// For each parameter of each layer the first one with the same type, extents
/// and bytes, or nothing. Parameters below `least` bytes are skipped.
std::vector<std::vector<std::optional<parameter_place>>>
find_same(const std::vector<model_parts::layer>& layers) {
  constexpr size_t least = 1024;
  struct known {
    parameter_place place;
    const_bytes bytes;
  };
  std::map<std::string, std::vector<known>> met;
  std::vector<std::vector<std::optional<parameter_place>>> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& found = out.emplace_back();
    for (auto& p : layers[i].parameters) {
      auto bytes = p.value.data.view();
      auto& alike = met[to_string(p.value)];
      auto same = std::find_if(alike.begin(), alike.end(), [&](auto& x) {
        return bytes.size() >= least
               && std::equal(bytes.begin(), bytes.end(), x.bytes.begin(),
                             x.bytes.end());
      });
      found.emplace_back();
      if (same != alike.end())
        found.back() = same->place;
      else
        alike.push_back({{i, p.name}, bytes});
    }
  }
  return out;
}

/// Moves parameters that an earlier layer has into `shares` of the bundle's
/// layer. A part that begins between the two layers then has to load from the
/// earlier one on: if that costs more bytes than all sharing saves, the layer
/// keeps its copy.
void share_parameters(draft& to, std::vector<layer_info>& infos,
                      std::vector<model_parts::layer>& layers) {
  auto same = find_same(layers);
  std::vector<uint64_t> own(layers.size());
  uint64_t saved = 0;
  for (size_t i = 0; i < layers.size(); ++i)
    for (size_t k = 0; k < layers[i].parameters.size(); ++k)
      (same[i][k] ? saved : own[i]) +=
        layers[i].parameters[k].value.data.size();
  for (size_t i = 0; i < layers.size(); ++i) {
    std::vector<named_tensor> kept;
    for (size_t k = 0; k < layers[i].parameters.size(); ++k) {
      auto& p = layers[i].parameters[k];
      auto& at = same[i][k];
      uint64_t between = 0;
      for (auto j = at ? at->first + 1 : i; j < i; ++j)
        between += own[j];
      if (at && between <= saved) {
        infos[i].shares.push_back({p.name, at->first, at->second});
        continue;
      }
      to.copied += at ? p.value.data.size() : 0;
      kept.push_back(std::move(p));
    }
    layers[i].parameters = std::move(kept);
    infos[i].parameters = layers[i].parameters.size();
    infos[i].parameter_bytes = bytes_of(layers[i].parameters);
  }
}

/// Creates the weights file and opens it for the bundle. The weights of a layer
/// are adjacent in the file.
result<void> add_weights(draft& x) {
  auto& content = x.content;
  auto& files = x.files;
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

tensors_info add_tensors(draft& to, const std::string& file, std::string text) {
  auto& kept = to.files[file] = std::move(text);
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
                 0,
                 0,
                 {},
                 layer.takes,
                 {}});
    for (auto& value : layer.gives)
      known.gives.push_back({std::move(value), {}, {}, {}});
    content.code.push_back(std::move(code));
    out.files[file] = std::move(layer.code);
  }
  share_parameters(out, info.layers, parts.layers);
  for (auto& layer : parts.layers)
    for (auto& p : layer.parameters)
      content.weights.push_back(
        {layer.name + "/" + p.name, std::move(p.value)});
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
