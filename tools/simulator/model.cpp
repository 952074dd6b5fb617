// SPDX-License-Identifier: Apache-2.0
#include "simulator/model.hpp"

#include <cstring>

namespace millrace::simulator {

manifest manifest_of(const std::string& name, const simulated_model& x) {
  manifest out;
  out.format = bundle_format;
  out.name = name;
  out.version = 1;
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
  out.layers.push_back({"model", "model.pt", 0, "", "", 0, {}, {}});
  out.weights.bytes = x.bytes.value;
  return out;
}

uint64_t request_of(const tensor_list& inputs) {
  uint64_t out = 0;
  if (!inputs.empty() && inputs[0].data.size() >= sizeof out)
    std::memcpy(&out, inputs[0].data.data(), sizeof out);
  return out;
}

} // namespace millrace::simulator
