// SPDX-License-Identifier: Apache-2.0
#include "simulator/model.hpp"

#include <cstring>

namespace millrace::simulator {

namespace {

/// Adds the layers. Each layer takes the output of the layer before; the last
/// layer takes the tag, too.
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
                     simulated_model model) {
  if (!model.alike)
    model.layers += version - 1;
  manifest out;
  out.format = bundle_format;
  out.name = name;
  out.version = version;
  out.application = model.application;
  if (model.accuracy)
    out.accuracy = accuracy_info{*model.accuracy, "top-1", "assumed"};
  out.generator = "millrace simulate";
  auto row = [](const char* tensor, uint64_t bytes) {
    return tensor_spec{tensor, dtype::u8, {-1, static_cast<int64_t>(bytes)}};
  };
  if (is_tagged(model)) {
    out.signature.inputs.push_back(row("tag", tag_bytes));
    out.signature.outputs.push_back(row("tag", tag_bytes));
  }
  out.signature.inputs.push_back(row("x", model.input.value));
  out.signature.outputs.push_back(row("y", model.output.value));
  add_layers(out, model);
  out.weights.bytes = model.bytes.value;
  return out;
}

uint64_t request_of(const tensor_list& inputs) {
  uint64_t out = 0;
  if (!inputs.empty() && inputs[0].data.size() >= sizeof out)
    std::memcpy(&out, inputs[0].data.data(), sizeof out);
  return out;
}

std::vector<uint64_t> requests_of(const execution& batch) {
  std::vector<uint64_t> out;
  // inputs of several requests, joined to a batch
  if (batch.items.size() == 1 && batch.rows.size() > 1) {
    auto& tags = batch.items[0].at(0);
    size_t row = 0;
    for (auto n : batch.rows) {
      auto first = tags;
      first.data = tags.data.slice(row * tag_bytes, tag_bytes);
      out.push_back(request_of({first}));
      row += n;
    }
    return out;
  }
  for (auto& item : batch.items)
    out.push_back(request_of(item));
  return out;
}

} // namespace millrace::simulator
