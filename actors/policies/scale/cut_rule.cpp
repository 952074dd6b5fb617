// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/cut_rule.hpp"

#include <cmath>

#include "actors/policies/state/costs.hpp"
#include "models/partition/cuts.hpp"

namespace millrace {

namespace {

constexpr double much_longer = 1.1;

std::string key_of_cut(const std::string& model, size_t i) {
  return model + "/cut " + std::to_string(i);
}

/// The remembered cuts; empty unless their number fits the parts and they are
/// valid for `layers` layers.
std::vector<uint64_t> remembered(const policy_memory& memory,
                                 const std::string& model, uint64_t parts,
                                 uint64_t layers) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i + 1 < parts; ++i) {
    auto found = memory.values.find(key_of_cut(model, i));
    if (found == memory.values.end())
      return {};
    auto cut = static_cast<uint64_t>(found->second);
    if (cut >= layers || cut <= (out.empty() ? 0 : out.back()))
      return {};
    out.push_back(cut);
  }
  return out;
}

} // namespace

model_state cut_by(cut_rule rule, const model_state& model,
                   const cluster_snapshot& in, policy_memory& memory) {
  auto out = model;
  auto layers = model.bundle.layer_bytes.size();
  auto parts = model.settings.parts;
  if (rule == cut_rule::bytes || !model.settings.cuts.empty() || parts < 2
      || model.version == 0 || parts > layers)
    return out;
  auto& name = model.settings.model;
  auto cuts = remembered(memory, name, parts, layers);
  if (auto seconds = layer_seconds(in.costs.get(), model)) {
    std::vector<uint64_t> times;
    for (auto s : *seconds)
      times.push_back(static_cast<uint64_t>(std::llround(1e9 * s)));
    auto best = even_cuts(times, parts);
    auto limit = much_longer * static_cast<double>(largest_part(times, best));
    if (cuts.empty() || static_cast<double>(largest_part(times, cuts)) > limit)
      cuts = best;
    for (size_t i = 0; i < cuts.size(); ++i)
      memory.values[key_of_cut(name, i)] = static_cast<double>(cuts[i]);
  }
  out.settings.cuts = cuts;
  return out;
}

} // namespace millrace
