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

/// Whether some store has a model, which can be cut as is wanted.
result<bool> check_bundle(const model_settings& x,
                          const std::set<std::string>& stores) {
  auto found = false;
  for (auto& path : stores) {
    bundle_store store{path};
    auto version = store.resolve(x.model, x.version);
    if (!version && version.failure().code == ec::unknown_model)
      continue;
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
  return found;
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
    auto found = check_bundle(model, stores);
    if (!found)
      return found.failure();
    if (!*found)
      out.push_back("model " + shown(model.model)
                    + ": no bundle of it on this"
                      " host"
                    + (stores.empty() ? ", which has none of the folders where"
                                        " workers look"
                                      : " (in " + listed(stores) + ")"));
  }
  return out;
}

} // namespace millrace
