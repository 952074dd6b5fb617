// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/given.hpp"

#include <set>
#include <sstream>

#include "actors/policies/scale/configured_groups.hpp"
#include "models/partition/cuts.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr uint64_t most_parts = 128;

error not_an_item(const std::string& text) {
  return {
    ec::bad_request,
    "groups: expected 'whole', 'N parts' or 'cuts A/B' (rising), then xN and"
    " 'on DEVICE' if need be, found "
      + shown(text),
    {}};
}

result<given_item> parse_item(const std::string& text) {
  std::istringstream words{text};
  std::string shape, word;
  given_item out;
  words >> shape;
  if (shape == "cuts") {
    words >> word;
    std::istringstream numbers{word};
    for (std::string n; std::getline(numbers, n, '/');)
      if (auto cut = number_in<uint64_t>(n);
          cut && *cut > (out.cuts.empty() ? 0 : out.cuts.back()))
        out.cuts.push_back(*cut);
      else
        return not_an_item(text);
    if (out.cuts.empty())
      return not_an_item(text);
    out.parts = out.cuts.size() + 1;
  } else if (auto n = number_in<uint64_t>(shape); n && *n > 1) {
    out.parts = *n;
    if (!(words >> word) || word != "parts")
      return not_an_item(text);
  } else if (shape != "whole") {
    return not_an_item(text);
  }
  while (words >> word)
    if (auto n = number_in<uint64_t>(word.substr(1)); word[0] == 'x' && n)
      out.copies = *n;
    else if (word != "on" || !(words >> out.device))
      return not_an_item(text);
  if (out.copies == 0 || out.copies > most_of_a_part || out.parts > most_parts)
    return error{ec::bad_request,
                 "groups: expected 1 to " + std::to_string(most_of_a_part)
                   + " copies and up to " + std::to_string(most_parts)
                   + " parts, found " + shown(text),
                 {}};
  return out;
}

/// What tells an item's groups from those of others.
std::string key_of(const given_item& x) {
  auto out =
    x.parts == 1 ? std::string{"whole"}
    : x.cuts.empty()
      ? std::to_string(x.parts) + "-parts"
      : "cuts-" + joined(x.cuts, "-", [](auto c) { return std::to_string(c); });
  return x.device.empty() ? out : out + "@" + x.device;
}

} // namespace

result<std::vector<given_item>> parse_given(const std::string& text) {
  std::vector<given_item> out;
  std::set<std::string> keys;
  std::istringstream items{text};
  for (std::string item; std::getline(items, item, ';');) {
    auto x = parse_item(item);
    if (!x)
      return x.failure();
    if (!keys.insert(key_of(*x)).second)
      return error{ec::bad_request,
                   "groups: " + shown(item)
                     + " is there twice (expected one, with xN)",
                   {}};
    out.push_back(std::move(*x));
  }
  if (out.empty())
    return not_an_item(text);
  return out;
}

result<std::shared_ptr<const scaling_policy>>
given_scaling::make(const std::string& scope, const given_options& x) {
  auto items = parse_given(x.groups);
  if (!items)
    return items.failure();
  return std::shared_ptr<const scaling_policy>{
    std::make_shared<given_scaling>(scope, x.groups, std::move(*items))};
}

proposal given_scaling::propose(const cluster_snapshot& snapshot,
                                policy_memory&, random_stream&,
                                timestamp) const {
  proposal out;
  for (auto& model : snapshot.scopes.at(scope_)->models) {
    auto is = *snapshot.models.at(model);
    out.reasons[model] = "as given: " + text_;
    for (auto& item : items_) {
      is.settings.parts = item.parts;
      is.settings.cuts = item.cuts;
      is.settings.replicas_of_parts.clear();
      is.settings.complete = false;
      is.settings.replicas = is.elastic ? item.copies : 0;
      if (!item.device.empty())
        is.settings.device = item.device;
      auto groups = configured_groups(is);
      if (!groups) {
        out.refused[model] = groups.failure().text;
        break;
      }
      auto key = key_of(item);
      for (auto& g : *groups) {
        g.id += "/" + key;
        g.cut = key;
        out.groups.push_back(std::move(g));
      }
      is.settings.device = snapshot.models.at(model)->settings.device;
    }
  }
  return out;
}

} // namespace millrace
