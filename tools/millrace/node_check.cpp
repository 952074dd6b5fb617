// SPDX-License-Identifier: Apache-2.0
#include "millrace/node_check.hpp"

#include <filesystem>
#include <functional>
#include <set>

#include "models/bundle_store.hpp"
#include "models/profile_book.hpp"
#include "models/profile_remarks.hpp"
#include "runtime/text.hpp"
#include "transport/messages/wanted_cuts.hpp"

namespace millrace {

namespace {

using doubts = std::vector<std::string>;

std::string listed(const std::set<std::string>& xs) {
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
      out.push_back(about + "is of " + listed(those)
                    + ", and no device here is of such a kind, but of "
                    + listed(kinds));
  }
  return {};
}

/// The folders of bundles that are on this host.
std::set<std::string> stores_of(const cluster_config& x) {
  std::set<std::string> out;
  for (auto& [name, node] : x.nodes)
    if (!node.devices.empty() && std::filesystem::is_directory(node.models))
      out.insert(node.models);
  return out;
}

/// Sees that what stores have of a model can be cut as is wanted. Returns why
/// none has it; empty: some has.
result<std::string> check_bundle(const model_settings& x,
                                 const std::set<std::string>& stores) {
  std::string why = "no folder where workers look for bundles is here";
  auto found = false;
  for (auto& path : stores) {
    bundle_store store{path};
    auto version = store.resolve(x.model, x.version);
    if (!version && version.failure().code == ec::unknown_model) {
      why = path + ": " + version.failure().text;
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
  }
  return found ? std::string{} : why;
}

/// Whether some device is of that kind, or has that id.
bool has_device(const cluster_config& x, const std::string& name) {
  for (auto& [node, settings] : x.nodes)
    for (auto& d : settings.devices)
      if (d.id == name || d.kind == name)
        return true;
  return false;
}

} // namespace

result<std::vector<std::string>> check_beside(const cluster_config& x) {
  doubts out;
  if (auto fine = check_profiles(x, out); !fine)
    return fine.failure();
  auto stores = stores_of(x);
  for (auto& model : x.models) {
    if (model.complete && wanted_cuts(model).part_count() == 1)
      out.push_back("model " + shown(model.model)
                    + ": complete does nothing where there is one part;"
                      " expected parts or cuts beside it");
    if (!model.device.empty() && !has_device(x, model.device))
      out.push_back("model " + shown(model.model) + ": no device here is "
                    + shown(model.device));
    auto missing = check_bundle(model, stores);
    if (!missing)
      return missing.failure();
    if (!missing->empty())
      out.push_back("model " + shown(model.model)
                    + ": not on this host: " + *missing);
  }
  return out;
}

} // namespace millrace
