// SPDX-License-Identifier: Apache-2.0
#include "models/manifest.hpp"

#include <functional>
#include <set>

#include "runtime/hash.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

namespace {

constexpr uint64_t most_parameters = 100'000; ///< in a weights file

/// Whether a path is relative and plain: it cannot leave the bundle.
bool stays_inside(const std::string& path) {
  if (path.empty() || path.size() > 255)
    return false;
  for (auto part : split(path, '/'))
    if (!check_name("file", part))
      return false;
  return true;
}

/// The defect in the sizes of a value; empty: none.
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

/// Checks that each layer takes only known values, and gives only new ones.
result<void> check_passing(const manifest& x) {
  constexpr size_t most = 64; // inputs of one stage
  if (x.layers.size() == 1) {
    auto& all = x.layers[0];
    if (all.takes.empty() && all.gives.empty())
      return {};
    return error{ec::bad_config,
                 "layers: " + shown(all.name)
                   + " is the whole model, and must not name inputs or outputs",
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
        return refuse("takes " + shown(name)
                      + ", which no earlier layer gives");
    auto last = &layer == &x.layers.back();
    if (last != layer.gives.empty())
      return refuse(last ? "is the last, and must not name its outputs"
                         : "gives nothing to later layers");
    for (auto& value : layer.gives) {
      if (!there.insert(value.name).second)
        return refuse("gives " + shown(value.name) + ", which exists already");
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
  if (x.format < oldest_bundle_format || x.format > bundle_format)
    return refuse("format " + std::to_string(x.format)
                  + " is not known (expected "
                  + std::to_string(oldest_bundle_format) + " or "
                  + std::to_string(bundle_format) + ")");
  if (auto named = check_name("model", x.name); !named)
    return refuse(named.failure().text);
  if (x.version == 0)
    return refuse("version is missing or 0");
  for (auto& [kind, text] :
       {std::pair{"application", x.application}, {"parent", x.parent}})
    if (auto plain = check_plain(kind, text); !plain)
      return refuse(plain.failure().text);
  if (x.layers.empty())
    return refuse("layers: there are none");
  if (auto fine = check_signature(x.signature); !fine)
    return refuse(fine.failure().text);
  uint64_t parameters = 0, left = x.weights.bytes;
  for (auto& layer : x.layers) {
    if (!stays_inside(layer.code))
      return refuse("layers: code " + shown(layer.code)
                    + " is not a plain path inside the bundle");
    if (layer.parameters > most_parameters - parameters)
      return refuse("layers: name more than 100000 parameters");
    parameters += layer.parameters;
    if (layer.parameter_bytes > left)
      return refuse("layers: have more bytes of parameters than the weights");
    left -= layer.parameter_bytes;
    parameters += layer.shares.size();
    for (auto& y : layer.shares)
      if (y.layer > static_cast<uint64_t>(&layer - x.layers.data()))
        return refuse("layers: " + shown(layer.name) + " shares "
                      + shown(y.name) + " with a later layer");
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

} // namespace

size_t first_needed(const manifest& info, size_t first, size_t last) {
  auto out = first;
  for (auto i = first; i < last; ++i)
    for (auto& y : info.layers[i].shares)
      out = std::min<size_t>(out, y.layer);
  return out;
}

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

std::string print_manifest(const manifest& info) {
  return yaml_writer::write(info);
}

} // namespace millrace
