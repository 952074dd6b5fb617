// SPDX-License-Identifier: Apache-2.0
#include "models/profile_book.hpp"

#include <algorithm>
#include <functional>

#include "runtime/text.hpp"

namespace millrace {

namespace {

std::string listed(const std::set<std::string>& xs) {
  return xs.empty() ? "none" : joined(xs, ", ", std::identity{});
}

} // namespace

std::set<std::string> profile_book::models() const {
  std::set<std::string> out;
  for (auto& x : all_)
    out.insert(x.model);
  return out;
}

bool profile_book::has(const std::string& model) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](auto& x) { return x.model == model; });
}

std::set<std::string>
profile_book::kinds_of(const std::string& model,
                       const std::string& beginning) const {
  std::set<std::string> out;
  for (auto& x : all_)
    if (x.model == model && !x.layers.empty()
        && x.layers.starts_with(beginning))
      out.insert(x.layers);
  return out;
}

result<profile> profile_book::find(const std::string& model,
                                   const std::string& layers) const {
  if (!has(model))
    return error{ec::unknown_model,
                 "no model " + shown(model) + "; there is " + listed(models())};
  auto meant = kinds_of(model, layers);
  if (meant.empty())
    meant = kinds_of(model);
  std::map<std::string, const profile*> of_any, measured; // by device
  for (auto& x : all_) {
    if (x.model != model || (!x.layers.empty() && !meant.contains(x.layers)))
      continue;
    for (auto& device : devices_in(x)) {
      auto& to = (x.layers.empty() ? of_any : measured)[device];
      if (to != nullptr)
        return error{ec::bad_request,
                     "model " + shown(model) + " has two kinds of layers on "
                       + shown(device) + ", " + to->layers + " and " + x.layers
                       + "; expected a choice of one"};
      to = &x;
    }
  }
  auto chosen = std::move(measured);
  chosen.merge(of_any); // for devices without a profile of these layers
  profile out{model, {}, {}, {}};
  for (auto& x : all_)
    for (auto& p : x.points)
      if (auto i = chosen.find(p.device); i != chosen.end() && i->second == &x)
        out.points.push_back(p);
  return out;
}

bool profile_book::tells(const std::string& metric,
                         const std::string& device) const {
  return std::any_of(all_.begin(), all_.end(), [&](auto& x) {
    return !curve_of(x, metric, device).empty();
  });
}

result<profile_book> read_book(const std::string& path) {
  auto all = read_profiles(path);
  if (!all)
    return all.failure();
  return profile_book{std::move(*all)};
}

result<profile> read_profile(const std::string& path, const std::string& model,
                             const std::string& layers) {
  auto all = read_profiles(path, model);
  if (!all)
    return all.failure();
  profile_book book{std::move(*all)};
  auto refuse = [&](const std::string& why) {
    return error{ec::bad_config, path + ": " + why, {}};
  };
  if (!layers.empty() && book.has(model)
      && book.kinds_of(model, layers).empty())
    return refuse("no layers " + shown(layers) + " of model " + shown(model)
                  + "; there is " + listed(book.kinds_of(model)));
  auto out = book.find(model, layers);
  if (!out)
    return refuse(out.failure().text);
  return out;
}

} // namespace millrace
