// SPDX-License-Identifier: Apache-2.0
#include "simulator/model.hpp"

#include <cstring>

namespace millrace::simulator {

namespace {

/// Each takes what the one before gives; the last the tag, too.
void add_layers(manifest& to, const simulated_model& x) {
  auto n = x.layers;
  auto passed = x.passed.value == 0 ? x.input.value : x.passed.value;
  std::string before = "x";
  for (uint64_t i = 0; i < n; ++i) {
    layer_info layer;
    layer.name = n == 1 ? "model" : "layer" + std::to_string(i);
    layer.code = layer.name + ".pt";
    layer.parameter_bytes =
      x.layer_bytes.size() == n
        ? x.layer_bytes[i]
        : x.bytes.value * (i + 1) / n - x.bytes.value * i / n;
    if (n > 1)
      layer.takes.push_back(before);
    if (n > 1 && i + 1 == n)
      layer.takes.push_back("tag");
    before = "h" + std::to_string(i);
    if (i + 1 < n)
      layer.gives.push_back(
        {before, dtype::u8, {1, static_cast<int64_t>(passed)}, {1, 0}});
    to.layers.push_back(std::move(layer));
  }
}

} // namespace

manifest manifest_of(const std::string& name, uint64_t version,
                     simulated_model x) {
  if (!x.alike)
    x.layers += version - 1;
  manifest out;
  out.format = bundle_format;
  out.name = name;
  out.version = version;
  out.application = x.application;
  if (x.accuracy)
    out.accuracy = accuracy_info{*x.accuracy, "top-1", "assumed"};
  out.generator = "millrace simulate";
  auto row = [](const char* tensor, uint64_t bytes) {
    return tensor_spec{tensor, dtype::u8, {-1, static_cast<int64_t>(bytes)}};
  };
  if (is_tagged(x)) {
    out.signature.inputs.push_back(row("tag", tag_bytes));
    out.signature.outputs.push_back(row("tag", tag_bytes));
  }
  out.signature.inputs.push_back(row("x", x.input.value));
  out.signature.outputs.push_back(row("y", x.output.value));
  add_layers(out, x);
  out.weights.bytes = x.bytes.value;
  return out;
}

uint64_t request_of(const tensor_list& inputs) {
  uint64_t out = 0;
  if (!inputs.empty() && inputs[0].data.size() >= sizeof out)
    std::memcpy(&out, inputs[0].data.data(), sizeof out);
  return out;
}

std::vector<uint64_t> requests_of(const execution& x) {
  std::vector<uint64_t> out;
  if (x.items.size() == 1 && x.rows.size() > 1) { // joined
    auto& tags = x.items[0].at(0);
    size_t row = 0;
    for (auto n : x.rows) {
      auto first = tags;
      first.data = tags.data.slice(row * tag_bytes, tag_bytes);
      out.push_back(request_of({first}));
      row += n;
    }
    return out;
  }
  for (auto& item : x.items)
    out.push_back(request_of(item));
  return out;
}

} // namespace millrace::simulator
