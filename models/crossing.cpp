// SPDX-License-Identifier: Apache-2.0
#include "models/crossing.hpp"

#include <algorithm>
#include <map>

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

std::vector<std::string> crossing(const manifest& x, size_t layer) {
  MILLRACE_ASSERT(layer <= x.layers.size());
  std::vector<std::string> out;
  if (layer == x.layers.size()) {
    for (auto& output : x.signature.outputs)
      out.push_back(output.name);
    return out;
  }
  std::set<std::string> taken;
  for (auto i = layer; i < x.layers.size(); ++i)
    taken.insert(x.layers[i].takes.begin(), x.layers[i].takes.end());
  for (auto& input : x.signature.inputs)
    if (layer == 0 || taken.contains(input.name))
      out.push_back(input.name);
  for (size_t i = 0; i < layer; ++i)
    for (auto& value : x.layers[i].gives)
      if (taken.contains(value.name))
        out.push_back(value.name);
  return out;
}

std::vector<stage_neighbours> stage_graph(const manifest& x,
                                          std::span<const size_t> cuts) {
  MILLRACE_ASSERT(std::is_sorted(cuts.begin(), cuts.end()));
  std::vector<stage_neighbours> out(cuts.size() + 1);
  std::map<std::string_view, size_t> givers;
  for (size_t i = 0; i < x.layers.size(); ++i) {
    auto at = std::upper_bound(cuts.begin(), cuts.end(), i);
    auto stage = static_cast<size_t>(at - cuts.begin());
    for (auto& name : x.layers[i].takes) {
      auto giver = givers.find(name);
      if (giver == givers.end() || giver->second == stage)
        continue; // one of the model's inputs, or its own
      out[stage].takes_from.insert(giver->second);
      out[giver->second].gives_to.insert(stage);
    }
    for (auto& value : x.layers[i].gives)
      givers[value.name] = stage;
  }
  return out;
}

result<tensor_list> zeros_as_inputs(const manifest& x, size_t rows,
                                    size_t extent) {
  auto s = x.signature;
  s.usual_extent = static_cast<int64_t>(extent);
  return zeros_of(s, s.inputs, static_cast<int64_t>(rows));
}

result<tensor_list> zeros_across(const manifest& x, size_t layer, size_t rows) {
  auto& s = x.signature;
  auto n = static_cast<int64_t>(rows);
  if (layer == 0)
    return zeros_of(s, s.inputs, n);
  if (layer == x.layers.size())
    return zeros_of(s, s.outputs, n);
  std::map<std::string_view, const tensor_spec*> inputs;
  for (auto& spec : s.inputs)
    inputs[spec.name] = &spec;
  std::map<std::string_view, const passed_value*> passed;
  for (size_t i = 0; i < layer; ++i)
    for (auto& value : x.layers[i].gives)
      passed[value.name] = &value;
  tensor_list out;
  for (auto& name : crossing(x, layer)) {
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

} // namespace millrace
