// SPDX-License-Identifier: Apache-2.0
#include "millrace/node_check.hpp"

#include <filesystem>
#include <functional>
#include <set>

#include "models/bundle_store.hpp"
#include "models/partition/profile_remarks.hpp"
#include "models/profile_book.hpp"
#include "runtime/text.hpp"
#include "transport/messages/wanted_cuts.hpp"

namespace millrace {

namespace {

using doubts = std::vector<std::string>;

std::string listing(const std::set<std::string>& xs) {
  return joined(xs, ", ", std::identity{});
}

result<void> check_profiles(const cluster_config& x, doubts& out) {
  if (x.profiles.empty())
    return {};
  auto book = read_book(x.profiles);
  if (!book)
    return book.failure();
  std::set<std::string> kinds;
  for (auto& [name, node] : x.nodes)
    for (auto& d : node.devices)
      kinds.insert(d.kind);
  for (auto& of : book->all()) {
    auto about = x.profiles + ": " + of.model + ": ";
    for (auto& remark : remarks_on(of))
      out.push_back(about + remark);
    auto those = devices_in(of);
    if (std::none_of(those.begin(), those.end(),
                     [&](auto& kind) { return kinds.contains(kind); }))
      out.push_back(about + "is of " + listing(those)
                    + ", and no device here is of such a kind, but of "
                    + listing(kinds));
  }
  return {};
}

/// The folders of bundles that exist on this host.
std::set<std::string> stores_of(const cluster_config& x) {
  std::set<std::string> out;
  for (auto& [name, node] : x.nodes)
    if (!node.devices.empty() && std::filesystem::is_directory(node.models))
      out.insert(node.models);
  return out;
}

/// Bytes of parameters in the model's largest stage.
uint64_t largest_of(const manifest& x, const model_settings& how) {
  std::vector<uint64_t> bytes;
  for (auto& layer : x.layers)
    bytes.push_back(layer.parameter_bytes);
  return largest_part(bytes, how.cuts.empty() ? even_cuts(bytes, how.parts)
                                              : how.cuts);
}

/// The result of searching the stores for a model.
struct found_bundle {
  std::string missing =
    "none of the workers' bundle folders exists here"; ///< empty: found
  uint64_t largest = 0; ///< bytes of the largest stage
};

/// Errors: bad_config when the model cannot be cut as configured.
result<found_bundle> find_bundle(const model_settings& x,
                                 const std::set<std::string>& stores) {
  found_bundle out;
  auto found = false;
  for (auto& path : stores) {
    bundle_store store{path};
    auto version = store.resolve(x.model, x.version);
    if (!version && version.failure().code == ec::unknown_model) {
      out.missing = path + ": " + version.failure().text;
      continue;
    }
    if (!version)
      return version.failure();
    auto content = store.open(x.model, std::to_string(*version), verify::sizes);
    if (!content)
      return content.failure();
    if (auto fine = check_cuts(wanted_cuts(x), content->info.layers.size());
        !fine)
      return error{ec::bad_config,
                   "model " + shown(x.model) + ", as in " + content->directory
                     + ": " + fine.failure().text,
                   {}};
    found = true;
    out.largest = std::max(out.largest, largest_of(content->info, x));
  }
  if (found)
    out.missing.clear();
  return out;
}

/// The devices that the model may be loaded onto.
std::vector<device_config> devices_for(const model_settings& x,
                                       const cluster_config& in) {
  std::vector<device_config> out;
  for (auto& [node, settings] : in.nodes)
    for (auto& d : settings.devices)
      if (x.device.empty() || d.id == x.device || d.kind == x.device)
        out.push_back(d);
  return out;
}

/// The largest limit of a worker's memory for models.
uint64_t most_memory(const cluster_config& in) {
  uint64_t out = 0;
  for (auto& [name, node] : in.nodes)
    if (auto most = node.cache.memory.value; !node.devices.empty())
      out = std::max(out, most == 0 ? UINT64_MAX : most);
  return out;
}

/// Warnings about a model's settings and devices.
doubts doubts_on(const model_settings& x, uint64_t largest,
                 const cluster_config& in) {
  doubts out;
  auto devices = devices_for(x, in);
  if (x.complete && wanted_cuts(x).part_count() == 1)
    out.push_back("complete does nothing where there is one part; expected"
                  " parts or cuts beside it");
  if (devices.empty())
    return out;
  auto is_cpu = [](auto& d) { return d.type == device_type::cpu; };
  if (x.share > 0 && std::all_of(devices.begin(), devices.end(), is_cpu))
    out.push_back(
      "share does nothing: a cpu cannot be partitioned, and the model"
      " is loaded onto no other device");
  uint64_t most = 0;
  for (auto& d : devices)
    most = std::max(most, d.memory.value == 0 ? UINT64_MAX : d.memory.value);
  if (largest > most)
    out.push_back(
      (wanted_cuts(x).part_count() == 1 ? "has " : "the largest stage has ")
      + format_bytes(largest)
      + " of parameters, but no device that may load it has more memory than "
      + format_bytes(most));
  if (auto memory = most_memory(in); largest > memory && memory > 0)
    out.push_back("no worker's memory for models (cache.memory) has room for"
                  " the "
                  + format_bytes(largest)
                  + " of the model; the largest limit is "
                  + format_bytes(memory)
                  + "; only workers with the model on their disk can use it");
  return out;
}

} // namespace

result<std::vector<std::string>> check_beside(const cluster_config& config) {
  doubts out;
  if (auto fine = check_profiles(config, out); !fine)
    return fine.failure();
  auto stores = stores_of(config);
  std::string wrong; // a line for each model
  for (auto& model : config.models) {
    auto bundle = find_bundle(model, stores);
    if (!bundle) {
      wrong += (wrong.empty() ? "" : "\n") + bundle.failure().text;
      continue;
    }
    auto about = "model " + shown(model.model) + ": ";
    for (auto& doubt : doubts_on(model, bundle->largest, config))
      out.push_back(about + doubt);
    if (!bundle->missing.empty() && config.object_stores.empty())
      out.push_back(about + "not on this host: " + bundle->missing);
  }
  if (!wrong.empty())
    return error{ec::bad_config, std::move(wrong), {}};
  return out;
}

} // namespace millrace
