// SPDX-License-Identifier: Apache-2.0
#include "simulator/contents.hpp"

#include "actors/cache/cache.hpp"
#include "models/reserved_content.hpp"
#include "models/travelling_bundle.hpp"
#include "runtime/text.hpp"
#include "simulator/model.hpp"
#include "transport/objects/bundle_index.hpp"

namespace millrace::simulator {

namespace {

constexpr auto weights_name = "weights.safetensors";

std::string hash_of(const std::string& text) {
  return sha256_hex(std::as_bytes(std::span{text}));
}

std::string path_of(const bundle& x) {
  return x.directory + "/" + weights_name;
}

/// Completes the manifest's entry of each layer, and adds code to the bundle.
std::vector<tensor_entry> add_layers(bundle& to, const std::string& name) {
  std::vector<tensor_entry> out;
  for (auto& layer : to.info.layers) {
    auto code = shared_bytes::copy_of("code of " + layer.name);
    layer.code_bytes = code.size();
    layer.code_sha256 = chunk_list::of(code.view()).file_hash();
    to.code.push_back(std::move(code));
    layer.parameters = 1;
    layer.parameters_sha256 = hash_of(name + " " + layer.name);
    out.push_back({layer.name + "/weight",
                   dtype::u8,
                   {static_cast<int64_t>(layer.parameter_bytes)},
                   layer.parameter_bytes});
  }
  return out;
}

} // namespace

contents::entry contents::make(const std::string& model, uint64_t version) {
  auto& spec = what_.bundles.at(model);
  auto name = model + "/" + std::to_string(version);
  entry out;
  auto& content = out.content;
  content.info = manifest_of(model, version, spec);
  content.info.precision = "U8";
  content.directory = name;
  auto head = write_safetensors_head(add_layers(content, name));
  MILLRACE_ASSERT(head); // names of layers differ
  auto size = head->size() + spec.bytes.value;
  auto bytes = reserve_content(*head, size);
  if (!bytes)
    throw std::bad_alloc{};
  out.bytes = std::move(*bytes);
  out.chunks = chunk_list::of_identity(name, size, what_.chunk.value);
  content.info.weights = {weights_name, size, out.chunks.file_hash(),
                          what_.chunk.value};
  content.text = print_manifest(content.info);
  return out;
}

contents::entry& contents::get(const std::string& model, uint64_t version) {
  auto i = made_.find({model, version});
  if (i == made_.end()) {
    i = made_.emplace(std::pair{model, version}, make(model, version)).first;
    by_chunks_[i->second.chunks.file_hash()] = &i->second;
  }
  return i->second;
}

std::shared_ptr<const bundle> contents::whole(const std::string& model,
                                              uint64_t version) {
  auto& x = get(model, version);
  if (!x.whole) {
    auto made = std::make_shared<bundle>(x.content);
    made->weights_file =
      arriving_file::reserved(path_of(x.content), x.bytes, x.chunks,
                              arriving_file::where::memory, true);
    MILLRACE_ASSERT(find_weights(*made));
    x.whole = std::move(made);
  }
  return x.whole;
}

std::shared_ptr<bundle> contents::absent(const std::string& model,
                                         uint64_t version,
                                         arriving_file::where place) {
  auto& x = get(model, version);
  auto out = std::make_shared<bundle>(*whole(model, version));
  out->weights_file = arriving_file::reserved(path_of(x.content), x.bytes,
                                              x.chunks, place, false);
  return out;
}

memory_maker contents::memory() {
  return [this](std::string path, uint64_t, chunk_list chunks,
                file_descriptor) -> result<std::shared_ptr<arriving_file>> {
    auto i = by_chunks_.find(chunks.file_hash());
    if (i == by_chunks_.end())
      return error{ec::bad_config,
                   path + ": no model of the scenario has these chunks",
                   {}};
    return arriving_file::reserved(std::move(path), i->second->bytes,
                                   std::move(chunks),
                                   arriving_file::where::memory, false);
  };
}

std::shared_ptr<const bundle> contents::find(const std::string& id) {
  for (auto& [key, x] : made_)
    if (hash_of(x.content.text) == id)
      return whole(key.first, key.second);
  return nullptr;
}

result<shared_bytes> contents::stored_file(const std::string& path) {
  error none{
    ec::unknown_model, path + ": the object store has no such file", {}};
  if (path == index_file) {
    bundle_index all;
    for (auto& [name, x] : what_.bundles)
      for (uint64_t v = 1; x.at == bundle_place::store && v <= x.versions; ++v)
        all.models.push_back(describe(*whole(name, v), aliases_of(v)));
    return shared_bytes::copy_of(print_index(all));
  }
  auto parts = split(path, '/');
  if (parts.size() != 3)
    return none;
  auto model = what_.bundles.find(std::string{parts[0]});
  auto version = number_in<uint64_t>(parts[1]).value_or(0);
  if (model == what_.bundles.end() || model->second.at != bundle_place::store
      || version == 0 || version > model->second.versions)
    return none;
  auto out = file_of(get(model->first, version), std::string{parts[2]});
  return out ? out : none;
}

result<shared_bytes> contents::file_of(entry& known, const std::string& name) {
  if (name == manifest_file)
    return shared_bytes::copy_of(known.content.text);
  if (name == weights_name)
    return known.bytes;
  if (name == std::string{weights_name} + chunk_list_suffix)
    return shared_bytes::copy_of(known.chunks.text());
  auto& layers = known.content.info.layers;
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].code == name)
      return known.content.code[i];
  return error{ec::unknown_model, name, {}};
}

} // namespace millrace::simulator
