// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/configured_groups.hpp"

#include <algorithm>

#include "runtime/text.hpp"
#include "transport/messages/wanted_cuts.hpp"

namespace millrace {

layer_range whole_of(const model_info& model) {
  return {0, std::max<uint64_t>(1, model.layer_bytes.size())};
}

uint64_t bytes_of(const model_info& model, const layer_range& layers) {
  auto& all = model.layer_bytes;
  if (layers == layer_range{} || layers == whole_of(model) || all.empty())
    return model.bytes;
  uint64_t out = 0;
  for (auto i = layers.first; i < layers.last && i < all.size(); ++i)
    out += all[i];
  return out;
}

uint64_t copies_there(const model_load& load) {
  uint64_t out = 0;
  for (auto& g : load.groups)
    if (g.group.extends.empty())
      out = std::max(out, g.ready + g.starting);
  return out;
}

std::optional<uint64_t> copies_in(const proposal& proposed,
                                  const std::string& model) {
  std::map<std::string, uint64_t> by_cut;
  for (auto& g : proposed.groups)
    if (g.model == model) {
      auto& copies = by_cut[g.extends.empty() ? g.cut : g.extends];
      copies = std::max(copies, g.count);
    }
  if (by_cut.empty())
    return std::nullopt;
  uint64_t out = 0;
  for (auto& [cut, n] : by_cut)
    out += n;
  return out;
}

namespace {

/// Whether whole replicas replace the parts of a model.
bool is_completed(const model_settings& x) {
  return x.complete && (x.parts > 1 || !x.cuts.empty());
}

constexpr auto completing_key = "complete";

} // namespace

std::string cut_text(const std::vector<uint64_t>& cuts) {
  return joined(cuts, ",", [](auto cut) { return std::to_string(cut); });
}

replica_group group_of(const model_state& model, const std::string& key) {
  auto& settings = model.settings;
  replica_group out;
  out.id = model.scope + "/" + settings.model + "/" + key;
  out.model = settings.model;
  out.version = model.version;
  out.device = settings.device;
  out.share = settings.share;
  auto& policy = settings.policy;
  if (policy.batch_max > 0)
    out.batch_max = std::max(policy.batch_max, policy.batch);
  out.tuned = {policy.batch, settings.concurrency, settings.threads, 1,
               out.batch_max};
  out.count = settings.replicas;
  out.units = settings.units;
  return out;
}

namespace {

uint64_t replicas_of_part(const model_settings& x, size_t part) {
  return x.replicas == 0 || x.replicas_of_parts.empty()
           ? x.replicas
           : x.replicas_of_parts[part];
}

} // namespace

std::vector<replica_group> groups_of_cut(const model_state& model,
                                         std::vector<uint64_t> cuts,
                                         const std::string& prefix,
                                         bool complete) {
  auto whole = whole_of(model.bundle);
  std::vector<replica_group> out;
  auto cut = prefix + cut_text(cuts);
  cuts.push_back(whole.last);
  uint64_t first = 0;
  for (size_t i = 0; i < cuts.size(); ++i) {
    auto key = std::to_string(first) + "-" + std::to_string(cuts[i]);
    auto& part = out.emplace_back(group_of(model, prefix + key));
    part.stage = i;
    part.layers = {first, cuts[i]};
    part.cut = cut;
    first = cuts[i];
  }
  if (complete) {
    auto& full = out.emplace_back(group_of(model, prefix + completing_key));
    full.layers = whole;
    full.cut = prefix + completing_key;
    full.extends = cut;
  }
  return out;
}

result<std::vector<replica_group>> configured_groups(const model_state& model) {
  auto& settings = model.settings;
  auto whole = group_of(model, whole_key);
  whole.cut = whole_key;
  if (model.version == 0)
    return std::vector{whole};
  whole.layers = whole_of(model.bundle);
  auto layers = whole.layers.last;
  if (auto fine = check_cuts(wanted_cuts(settings), layers); !fine)
    return fine.failure();
  auto cuts = settings.cuts;
  if (cuts.empty() && settings.parts > 1)
    cuts = even_cuts(model.bundle.layer_bytes, settings.parts);
  if (cuts.empty()) {
    whole.count = replicas_of_part(settings, 0);
    return std::vector{whole};
  }
  auto out = groups_of_cut(model, cuts, "", is_completed(settings));
  uint64_t copies = 0;
  for (auto& g : out) {
    g.count = g.extends.empty() ? replicas_of_part(settings, g.stage) : copies;
    copies = std::max(copies, g.count);
  }
  return out;
}

} // namespace millrace
