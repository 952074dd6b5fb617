// SPDX-License-Identifier: Apache-2.0
#include "models/bundle.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "runtime/hash.hpp"
#include "runtime/sizes.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr size_t max_code = 256u << 20;

/// Bytes of a samples file.
constexpr size_t max_samples = 1u << 30;

error wrong_hash(const std::string& path) {
  return {ec::bad_config, path + ": its SHA-256 is not the manifest's"};
}

/// Maps a file of a bundle; it must have the size in the manifest.
result<mapped_file> open_part(const std::string& directory,
                              const std::string& name, uint64_t bytes) {
  auto file = open_file_beneath(directory, name);
  if (!file)
    return file.failure();
  auto path = directory + "/" + name;
  auto x = map_open_file(std::move(*file), path);
  if (x && x->content.size() != bytes)
    return error{ec::bad_config,
                 path + ": has " + std::to_string(x->content.size())
                   + " bytes, expected " + std::to_string(bytes)};
  return x;
}

/// Reads the manifest and the code.
result<bundle> open_without_weights(const std::string& directory, verify how) {
  auto file = directory + "/" + manifest_file;
  auto text = read_file_beneath(directory, manifest_file, max_manifest_bytes);
  if (!text)
    return text.failure();
  auto info = parse_manifest(*text, file);
  if (!info)
    return info.failure();
  bundle out{std::move(*info), directory, std::move(*text), {}, {}, nullptr};
  for (auto& layer : out.info.layers) {
    if (layer.code_bytes > max_code)
      return error{ec::too_large, file + ": layer '" + layer.name
                                    + "' has more than 256 MiB of code"};
    auto code = open_part(directory, layer.code, layer.code_bytes);
    if (!code)
      return code.failure();
    if (how != verify::sizes
        && !is_right(out.info, code->content.view(), layer.code_sha256))
      return wrong_hash(directory + "/" + layer.code);
    out.code.push_back(std::move(code->content));
  }
  return out;
}

/// Reads the hashes of the chunks of a bundle's weights.
result<chunk_list> read_chunk_list(const bundle& x, const_bytes weights) {
  auto& [file, bytes, sha256, chunk] = x.info.weights;
  auto path = x.directory + "/" + file;
  if (chunk && *chunk != chunk_bytes)
    return error{ec::bad_config,
                 path + ": has chunks of " + std::to_string(*chunk)
                   + " bytes, expected " + std::to_string(chunk_bytes)
                   + ": other sizes are for simulated models"};
  // Has no chunk list: only the whole file can be verified.
  if (x.info.format == 1)
    return is_right(x.info, weights, sha256)
             ? result<chunk_list>{chunk_list::of(weights)}
             : wrong_hash(path);
  auto within = [](result<chunk_list> y, const std::string& where) {
    return y ? std::move(y)
             : result<chunk_list>{std::move(y.failure()).within(where)};
  };
  if (bytes <= chunk_bytes)
    return within(chunk_list::of_short_file(bytes, sha256), path);
  auto name = file + chunk_list_suffix;
  auto text =
    read_file_beneath(x.directory, name, chunk_list::text_bytes(bytes));
  if (!text)
    return text.failure();
  return within(chunk_list::read(*text, bytes, sha256),
                x.directory + "/" + name);
}

/// Verifies chunks of a bundle's weights.
result<void> verify_chunks(const bundle& x, chunk_range which) {
  for (auto i = which.first; i < which.last; ++i)
    if (auto done = x.weights_file->verify(i); !done)
      return done;
  return x.weights_file->wait(which);
}

/// The weights that the layer does not share with an earlier layer.
std::span<const named_tensor> own_weights(const bundle& x, size_t layer) {
  MILLRACE_ASSERT(layer < x.info.layers.size());
  size_t begin = 0;
  for (size_t i = 0; i < layer; ++i)
    begin += x.info.layers[i].parameters;
  return std::span{x.weights}.subspan(begin, x.info.layers[layer].parameters);
}

/// Null where the earlier layer has no such parameter.
const named_tensor* find_shared(const bundle& x, const shared_parameter& y) {
  auto name = x.info.layers[y.layer].name + "/" + y.of;
  for (auto& w : own_weights(x, y.layer))
    if (w.name == name)
      return &w;
  return nullptr;
}

/// Checks that the layers name exactly the parameters in the weights file.
result<void> check_weights(const bundle& x) {
  size_t expected = 0;
  for (auto& layer : x.info.layers)
    expected += layer.parameters;
  if (x.weights.size() != expected)
    return error{ec::bad_config, x.directory + ": the layers name "
                                   + std::to_string(expected)
                                   + " parameters, the weights file has "
                                   + std::to_string(x.weights.size())};
  for (auto& layer : x.info.layers)
    for (auto& y : layer.shares)
      if (find_shared(x, y) == nullptr)
        return error{ec::bad_config, x.directory + ": layer "
                                       + shown(layer.name) + " shares "
                                       + shown(y.of) + " of layer "
                                       + shown(x.info.layers[y.layer].name)
                                       + ", which has no such parameter"};
  for (size_t i = 0; x.info.layers.size() > 1 && i < x.info.layers.size();
       ++i) {
    auto& layer = x.info.layers[i];
    if (bytes_of(own_weights(x, i)) != layer.parameter_bytes)
      return error{ec::bad_config, x.directory + ": the parameters of layer "
                                     + shown(layer.name)
                                     + " do not have the size in the manifest"};
  }
  return {};
}

/// Points the weights of a bundle on the disk at their places, and verifies no
/// more chunks than that needs.
result<void> find_verified(bundle& x) {
  auto& file = *x.weights_file;
  auto first = std::min<uint64_t>(1, file.chunks());
  if (auto done = verify_chunks(x, {0, first}); !done)
    return done;
  auto head = safetensors_head(file.content().view(), file.bytes());
  if (!head)
    return std::move(head.failure()).within(file.path());
  if (auto done = verify_chunks(x, chunks_over(0, *head)); !done)
    return done;
  auto found = find_weights(x);
  if (found && !*found) {
    if (auto done = verify_chunks(x, {0, file.chunks()}); !done)
      return done;
    found = find_weights(x);
  }
  return found ? result<void>{} : found.failure();
}

} // namespace

bool is_right(const manifest& info, const_bytes content,
              const std::string& sha256) {
  return sha256
         == (info.format == 1 ? sha256_hex(content)
                              : chunk_list::of(content).file_hash());
}

result<std::vector<named_tensor>> open_samples(const bundle& opened) {
  if (!opened.info.samples)
    return std::vector<named_tensor>{};
  auto& [file, bytes, sha256, unused] = *opened.info.samples;
  if (bytes > max_samples)
    return error{ec::too_large,
                 opened.directory + ": more than 1 GiB of samples"};
  auto part = open_part(opened.directory, file, bytes);
  if (!part)
    return part.failure();
  auto path = opened.directory + "/" + file;
  if (!is_right(opened.info, part->content.view(), sha256))
    return wrong_hash(path);
  auto tensors = read_safetensors(part->content);
  if (!tensors)
    return std::move(tensors.failure()).within(path);
  return tensors;
}

result<bool> find_weights(bundle& opened) {
  if (auto& file = opened.weights_file) {
    auto whole = true;
    auto tensors = read_safetensors(file->content(), [&]() -> result<void> {
      whole = file->has(chunk_range{0, file->chunks()});
      return whole ? result<void>{} : error{ec::unavailable, "yet to come", {}};
    });
    if (!whole)
      return false;
    if (!tensors)
      return std::move(tensors.failure()).within(file->path());
    opened.weights = std::move(*tensors);
  }
  auto fine = check_weights(opened);
  return fine ? result<bool>{true} : fine.failure();
}

result<bundle> open_bundle(const std::string& directory, verify how,
                           const memory_maker& memory) {
  auto out = open_without_weights(directory, how);
  if (!out)
    return out;
  auto& [file, bytes, sha256, unused] = out->info.weights;
  if (!file.empty()) {
    auto part = open_part(directory, file, bytes);
    if (!part)
      return part.failure();
    auto path = directory + "/" + file;
    if (how == verify::sizes) {
      auto tensors = read_safetensors(part->content);
      if (!tensors)
        return std::move(tensors.failure()).within(path);
      out->weights = std::move(*tensors);
    } else {
      auto chunks = read_chunk_list(*out, part->content.view());
      if (!chunks)
        return chunks.failure();
      if (how != verify::into_memory) {
        out->weights_file =
          arriving_file::over(path, std::move(*part), std::move(*chunks));
      } else {
        auto copy =
          memory(path, bytes, std::move(*chunks), std::move(part->file));
        if (!copy)
          return copy.failure();
        out->weights_file = std::move(*copy);
      }
      if (auto found = find_verified(*out); !found)
        return found.failure();
    }
  }
  if (!out->weights_file) // else find_weights() has checked them
    if (auto fine = check_weights(*out); !fine)
      return fine.failure();
  if (how != verify::hashes)
    return out;
  if (auto& weights = out->weights_file)
    if (auto done = verify_chunks(*out, {0, weights->chunks()}); !done)
      return done.failure();
  if (auto fine = open_samples(*out); !fine)
    return fine.failure();
  return out;
}

std::vector<named_tensor> weights_of(const bundle& opened, size_t first,
                                     size_t last) {
  std::vector<named_tensor> out;
  for (auto i = first; i < last; ++i) {
    auto& layer = opened.info.layers[i];
    auto own = own_weights(opened, i);
    out.insert(out.end(), own.begin(), own.end());
    for (auto& shared : layer.shares)
      if (auto* owner = find_shared(opened, shared))
        out.push_back({layer.name + "/" + shared.name, owner->value});
  }
  return out;
}

uint64_t weight_bytes(const bundle& opened, size_t first, size_t last) {
  std::map<const void*, size_t> parts;
  for (auto& w : weights_of(opened, first, last))
    parts[w.value.data.data()] = w.value.data.size();
  uint64_t n = 0;
  for (auto& [at, bytes] : parts)
    n += bytes;
  return n;
}

chunk_range chunks_of(const bundle& opened, size_t first, size_t last) {
  auto weights = weights_of(opened, first, last);
  if (weights.empty() || !opened.weights_file)
    return {};
  auto& all = opened.weights_file->content();
  auto begin = all.size(), end = uint64_t{0};
  for (auto& w : weights) {
    auto& bytes = w.value.data;
    if (bytes.data() < all.data() || bytes.data() >= all.data() + all.size())
      continue; // a copy, made while its chunks were present
    auto at = static_cast<uint64_t>(bytes.data() - all.data());
    begin = std::min<uint64_t>(begin, at);
    end = std::max<uint64_t>(end, at + bytes.size());
  }
  return chunks_over(begin, end, opened.weights_file->bytes_of_chunk());
}

void hand_on_weights(const bundle& opened, size_t first, size_t last,
                     const std::function<void(const_bytes)>& to) {
  constexpr uint64_t at_a_time = 16;
  auto all = chunks_of(opened, first, last);
  auto beginning_of = [&](uint64_t chunk) { // at most the end of the file
    auto whole = opened.weights_file->content().size();
    return std::min<size_t>(
      product(chunk, opened.weights_file->bytes_of_chunk()).value_or(whole),
      whole);
  };
  for (auto at = all.first; at < all.last; at += at_a_time) {
    chunk_range some{at, std::min(at + at_a_time, all.last)};
    auto begin = beginning_of(some.first);
    auto part = opened.weights_file->content().slice(
      begin, beginning_of(some.last) - begin);
    opened.weights_file->when(some, [to, part = std::move(part)](auto& there) {
      if (there)
        to(part.view());
    });
  }
}

} // namespace millrace
