// SPDX-License-Identifier: Apache-2.0
#include "models/crossing.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <sodium.h>

#include "models/safetensors.hpp"

namespace millrace {

namespace {

result<tensor_list> zeros_of(const signature& s,
                             const std::vector<tensor_spec>& specs,
                             int64_t rows) {
  tensor_list out;
  for (auto& spec : specs) {
    auto zeros = tensor::zeros(spec.type, with_rows(s, spec, rows));
    if (!zeros)
      return zeros.failure();
    out.push_back(std::move(*zeros));
  }
  return out;
}

shape extents_of(const passed_value& x, int64_t rows) {
  auto out = *shape::of(x.extents);
  for (size_t i = 0; i < x.per_row.size(); ++i)
    out[i] += (rows - 1) * x.per_row[i];
  return out;
}

} // namespace

std::vector<std::string> value_names(const std::vector<passed_value>& xs) {
  std::vector<std::string> out;
  for (auto& x : xs)
    out.push_back(x.name);
  return out;
}

std::vector<std::string> crossing(const manifest& info, size_t layer) {
  MILLRACE_ASSERT(layer <= info.layers.size());
  std::vector<std::string> out;
  if (layer == info.layers.size()) {
    for (auto& output : info.signature.outputs)
      out.push_back(output.name);
    return out;
  }
  std::set<std::string> taken;
  for (auto i = layer; i < info.layers.size(); ++i)
    taken.insert(info.layers[i].takes.begin(), info.layers[i].takes.end());
  for (auto& input : info.signature.inputs)
    if (layer == 0 || taken.contains(input.name))
      out.push_back(input.name);
  for (size_t i = 0; i < layer; ++i)
    for (auto& value : info.layers[i].gives)
      if (taken.contains(value.name))
        out.push_back(value.name);
  return out;
}

std::vector<stage_neighbours> stage_graph(const manifest& info,
                                          std::span<const size_t> cuts) {
  MILLRACE_ASSERT(std::is_sorted(cuts.begin(), cuts.end()));
  std::vector<stage_neighbours> out(cuts.size() + 1);
  std::map<std::string_view, size_t> givers;
  for (size_t i = 0; i < info.layers.size(); ++i) {
    auto at = std::upper_bound(cuts.begin(), cuts.end(), i);
    auto stage = static_cast<size_t>(at - cuts.begin());
    for (auto& name : info.layers[i].takes) {
      auto giver = givers.find(name);
      if (giver == givers.end() || giver->second == stage)
        continue; // an input of the model, or a value of the same stage
      out[stage].takes_from.insert(giver->second);
      out[giver->second].gives_to.insert(stage);
    }
    for (auto& value : info.layers[i].gives)
      givers[value.name] = stage;
  }
  return out;
}

result<tensor_list> zeros_as_inputs(const manifest& info, size_t rows,
                                    size_t extent) {
  auto s = info.signature;
  s.usual_extent = static_cast<int64_t>(extent);
  return zeros_of(s, s.inputs, static_cast<int64_t>(rows));
}

result<tensor_list> zeros_across(const manifest& info, size_t layer,
                                 size_t rows) {
  auto& s = info.signature;
  auto n = static_cast<int64_t>(rows);
  if (layer == 0)
    return zeros_of(s, s.inputs, n);
  if (layer == info.layers.size())
    return zeros_of(s, s.outputs, n);
  std::map<std::string_view, const tensor_spec*> inputs;
  for (auto& spec : s.inputs)
    inputs[spec.name] = &spec;
  std::map<std::string_view, const passed_value*> passed;
  for (size_t i = 0; i < layer; ++i)
    for (auto& value : info.layers[i].gives)
      passed[value.name] = &value;
  tensor_list out;
  for (auto& name : crossing(info, layer)) {
    auto i = inputs.find(name);
    auto zeros =
      i != inputs.end()
        ? tensor::zeros(i->second->type, with_rows(s, *i->second, n))
        : tensor::zeros(passed.at(name)->type, extents_of(*passed.at(name), n));
    if (!zeros)
      return zeros.failure();
    out.push_back(std::move(*zeros));
  }
  return out;
}

namespace {

constexpr size_t warm_up_bytes_max = 16u << 10;

/// The manifest's row for warm-ups; none if it is missing or invalid.
std::optional<tensor_list> read_warm_up_row(const manifest& x) {
  auto& text = x.warm_up;
  if (text.empty() || text.size() > 2 * warm_up_bytes_max)
    return std::nullopt;
  byte_buffer bytes{text.size()};
  size_t n = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()),
                        bytes.size(), text.data(), text.size(), nullptr, &n,
                        nullptr, sodium_base64_VARIANT_ORIGINAL)
      != 0)
    return std::nullopt;
  auto tensors = read_safetensors(std::move(bytes).freeze().slice(0, n));
  if (!tensors)
    return std::nullopt;
  tensor_list out;
  for (auto& input : x.signature.inputs)
    for (auto& y : *tensors)
      if (y.name == input.name)
        out.push_back(y.value);
  return check_inputs(x.signature, out) ? std::optional{out} : std::nullopt;
}

} // namespace

result<std::string> write_warm_up_row(const signature& s,
                                      const tensor_list& inputs) {
  std::vector<named_tensor> named;
  for (size_t i = 0; i < inputs.size(); ++i)
    named.push_back({s.inputs[i].name, inputs[i]});
  auto text = write_safetensors(named);
  if (!text)
    return text.failure();
  if (text->size() > warm_up_bytes_max)
    return error{ec::too_large,
                 std::to_string(text->size()) + " bytes of inputs for a row",
                 {}};
  std::string out(
    sodium_base64_encoded_len(text->size(), sodium_base64_VARIANT_ORIGINAL), 0);
  sodium_bin2base64(out.data(), out.size(),
                    reinterpret_cast<const unsigned char*>(text->data()),
                    text->size(), sodium_base64_VARIANT_ORIGINAL);
  out.pop_back(); // the terminating zero
  return out;
}

result<tensor_list> warm_up_inputs(const manifest& info, size_t layer,
                                   size_t rows) {
  auto row = layer == 0 ? read_warm_up_row(info) : std::nullopt;
  if (!row)
    return zeros_across(info, layer, rows);
  if (info.signature.batch_axis < 0)
    return std::move(*row);
  return gather(std::vector<tensor_list>(rows, *row),
                info.signature.batch_axis);
}

} // namespace millrace
