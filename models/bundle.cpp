// SPDX-License-Identifier: Apache-2.0
#include "models/bundle.hpp"

#include <filesystem>
#include <functional>
#include <set>

#include "runtime/hash.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

namespace {

constexpr size_t max_manifest = 4u << 20;
constexpr size_t max_code = 256u << 20;
constexpr uint64_t most_parameters = 100'000; ///< what a weights file may have

/// A relative path of plain components: it cannot leave the bundle.
bool stays_inside(const std::string& path) {
  if (path.empty() || path.size() > 255)
    return false;
  for (auto part : split(path, '/'))
    if (!check_name("file", part))
      return false;
  return true;
}

/// What is wrong with what it says of its size; empty: nothing.
std::string objection(const passed_value& x) {
  constexpr size_t most_row_bytes = size_t{1} << 30;
  auto more = shape::of(x.per_row);
  if (!shape::of(x.extents) || !more)
    return "has more axes than a tensor can have";
  if (more->rank() != 0 && more->rank() != x.extents.size())
    return "has " + std::to_string(x.extents.size()) + " axes, and rows add to "
           + std::to_string(more->rank());
  auto grown = *shape::of(x.extents);
  for (size_t i = 0; i < grown.rank(); ++i) {
    constexpr int64_t most = int64_t{1} << 40;
    auto each = more->rank() == 0 ? 0 : x.per_row[i];
    if (x.extents[i] < 0 || x.extents[i] > most || each < 0 || each > most)
      return "has extents that no tensor has";
    grown[i] += each;
  }
  auto bytes = dense_bytes(x.type, grown);
  return bytes && *bytes <= most_row_bytes ? "" : "has rows of more than 1 GiB";
}

/// Whether each layer takes what there is by then, and gives what is new.
result<void> check_passing(const manifest& x) {
  constexpr size_t most = 64; // what a stage takes at once
  if (x.layers.size() == 1) {
    auto& all = x.layers[0];
    if (all.takes.empty() && all.gives.empty())
      return {};
    return error{ec::bad_config,
                 "layers: " + shown(all.name)
                   + " is the whole model, and names what it takes or gives",
                 {}};
  }
  std::set<std::string> there;
  for (auto& input : x.signature.inputs)
    there.insert(input.name);
  for (auto& layer : x.layers) {
    auto refuse = [&](const std::string& why) {
      return error{
        ec::bad_config, "layers: " + shown(layer.name) + " " + why, {}};
    };
    if (layer.takes.size() > most || layer.gives.size() > most)
      return refuse("takes or gives more than 64 tensors");
    for (auto& name : layer.takes)
      if (!there.contains(name))
        return refuse("takes " + shown(name) + ", which no layer before gives");
    auto last = &layer == &x.layers.back();
    if (last != layer.gives.empty())
      return refuse(last ? "is the last and gives what has a name"
                         : "gives nothing to those behind it");
    for (auto& value : layer.gives) {
      if (!there.insert(value.name).second)
        return refuse("gives " + shown(value.name)
                      + ", which is there already");
      if (auto why = objection(value); !why.empty())
        return refuse("gives " + shown(value.name) + ", which " + why);
    }
  }
  return {};
}

result<void> check(const manifest& x, const std::string& file) {
  auto refuse = [&](std::string why) {
    return error{ec::bad_config, file + ": " + std::move(why), {}};
  };
  if (x.format != bundle_format)
    return refuse("format " + std::to_string(x.format)
                  + " is not known (expected " + std::to_string(bundle_format)
                  + ")");
  if (auto named = check_name("model", x.name); !named)
    return refuse(named.failure().text);
  if (x.version == 0)
    return refuse("version is missing or 0");
  if (x.layers.empty())
    return refuse("layers: there are none");
  if (auto fine = check_signature(x.signature); !fine)
    return refuse(fine.failure().text);
  uint64_t parameters = 0;
  for (auto& layer : x.layers) {
    if (!stays_inside(layer.code))
      return refuse("layers: code " + shown(layer.code)
                    + " is not a plain path inside the bundle");
    if (layer.parameters > most_parameters - parameters)
      return refuse("layers: name more than 100000 parameters");
    parameters += layer.parameters;
  }
  if (auto fine = check_passing(x); !fine)
    return refuse(fine.failure().text);
  if (!x.weights.file.empty() && !stays_inside(x.weights.file))
    return refuse("weights: file " + shown(x.weights.file)
                  + " is not a plain path inside the bundle");
  if (x.samples && !stays_inside(x.samples->file))
    return refuse("samples: file " + shown(x.samples->file)
                  + " is not a plain path inside the bundle");
  return {};
}

/// Of samples, which are mapped to be looked at only.
constexpr size_t max_samples = 1u << 30;

/// Maps a file of a bundle and holds it against what the manifest says of it.
result<mapped_file> open_part(const std::string& directory,
                              const std::string& name, uint64_t bytes,
                              const std::string& sha256, verify how) {
  auto file = open_file_beneath(directory, name);
  if (!file)
    return file.failure();
  auto path = directory + "/" + name;
  auto x = map_open_file(std::move(*file), path);
  if (!x)
    return x.failure();
  auto& content = x->content;
  if (content.size() != bytes)
    return error{ec::bad_config,
                 path + ": has " + std::to_string(content.size())
                   + " bytes, the manifest says " + std::to_string(bytes)};
  if (how == verify::hashes && sha256_hex(content.view()) != sha256)
    return error{ec::bad_config, path + ": its SHA-256 is not the manifest's"};
  return x;
}

} // namespace

std::string layers_key(const std::vector<layer_info>& xs) {
  constexpr size_t digits = 16;
  std::string text;
  for (auto& layer : xs)
    text += layer.name + '\n' + layer.code_sha256 + '\n'
            + std::to_string(layer.parameter_bytes) + '\n'
            + joined(layer.takes, " ", std::identity{}) + '\n';
  return sha256_hex(std::as_bytes(std::span{text})).substr(0, digits);
}

result<manifest> parse_manifest(const std::string& text,
                                const std::string& file) {
  manifest out;
  if (auto done = yaml_reader{file}.read(text, out); !done)
    return done.failure();
  if (auto fine = check(out, file); !fine)
    return fine.failure();
  return out;
}

std::string print_manifest(const manifest& x) {
  return yaml_writer::write(x);
}

result<std::vector<named_tensor>> open_samples(const bundle& x) {
  if (!x.info.samples)
    return std::vector<named_tensor>{};
  auto& [file, bytes, sha256] = *x.info.samples;
  if (bytes > max_samples)
    return error{ec::too_large, x.directory + ": more than 1 GiB of samples"};
  auto content = open_part(x.directory, file, bytes, sha256, verify::hashes);
  if (!content)
    return content.failure();
  auto tensors = read_safetensors(content->content);
  if (!tensors)
    return std::move(tensors.failure()).within(x.directory + "/" + file);
  return tensors;
}

result<bundle> open_bundle(const std::string& directory, verify how) {
  auto file = directory + "/model.yaml";
  auto text = read_file_beneath(directory, "model.yaml", max_manifest);
  if (!text)
    return text.failure();
  auto info = parse_manifest(*text, file);
  if (!info)
    return info.failure();
  bundle out{std::move(*info), directory, {}, {}, nullptr};
  size_t expected = 0;
  for (auto& layer : out.info.layers) {
    if (layer.code_bytes > max_code)
      return error{ec::too_large, file + ": layer '" + layer.name
                                    + "' has more than 256 MiB of code"};
    auto code = open_part(directory, layer.code, layer.code_bytes,
                          layer.code_sha256, how);
    if (!code)
      return code.failure();
    out.code.push_back(std::move(code->content));
    expected += layer.parameters;
  }
  if (!out.info.weights.file.empty()) {
    auto path = directory + "/" + out.info.weights.file;
    auto weights =
      open_part(directory, out.info.weights.file, out.info.weights.bytes,
                out.info.weights.sha256, how);
    if (!weights)
      return weights.failure();
    auto tensors = read_safetensors(weights->content);
    if (!tensors)
      return std::move(tensors.failure()).within(path);
    out.weights = std::move(*tensors);
    out.weights_file =
      std::make_shared<const file_descriptor>(std::move(weights->file));
  }
  if (out.info.samples && how == verify::hashes)
    if (auto fine = open_samples(out); !fine)
      return fine.failure();
  if (out.weights.size() != expected)
    return error{ec::bad_config, directory + ": the layers name "
                                   + std::to_string(expected)
                                   + " parameters, the weights file has "
                                   + std::to_string(out.weights.size())};
  for (size_t i = 0; out.info.layers.size() > 1 && i < out.info.layers.size();
       ++i) {
    auto& layer = out.info.layers[i];
    if (bytes_of(weights_of(out, i, i + 1)) != layer.parameter_bytes)
      return error{ec::bad_config,
                   directory + ": the parameters of layer " + shown(layer.name)
                     + " have not the bytes that the manifest says"};
  }
  return out;
}

std::span<const named_tensor> weights_of(const bundle& x, size_t first,
                                         size_t last) {
  MILLRACE_ASSERT(first <= last && last <= x.info.layers.size());
  size_t begin = 0, n = 0;
  for (size_t i = 0; i < last; ++i)
    (i < first ? begin : n) += x.info.layers[i].parameters;
  return std::span{x.weights}.subspan(begin, n);
}

} // namespace millrace
