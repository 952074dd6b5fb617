// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/given.hpp"

#include <algorithm>
#include <sstream>
#include <tuple>

#include "actors/policies/state/configured_groups.hpp"
#include "models/partition/cuts.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

constexpr uint64_t most_parts = 128;

error not_an_item(const std::string& text) {
  return {ec::bad_request,
          "groups: expected 'whole', 'N parts' or 'cuts A/B' (rising), then xN,"
          " 'on DEVICE' and parameters ('batch 8') if need be, found "
            + shown(text),
          {}};
}

/// Reads the shape: the first one or two words.
bool read_shape(std::istringstream& words, given_item& out) {
  std::string shape, word;
  words >> shape;
  if (shape == "cuts") {
    words >> word;
    std::istringstream numbers{word};
    for (std::string n; std::getline(numbers, n, '/');)
      if (auto cut = number_in<uint64_t>(n);
          cut && *cut > (out.cuts.empty() ? 0 : out.cuts.back()))
        out.cuts.push_back(*cut);
      else
        return false;
    out.parts = out.cuts.size() + 1;
    return !out.cuts.empty();
  }
  if (auto n = number_in<uint64_t>(shape); n && *n > 1) {
    out.parts = *n;
    return words >> word && word == "parts";
  }
  return shape == "whole";
}

template <class T>
result<void> read_number(const std::string& name, const std::string& text,
                         std::optional<T>& to, T least, T most) {
  if (to)
    return error{
      ec::bad_request, "groups: " + name + " is there twice in one item", {}};
  auto n = number_in<T>(text);
  if (!n || !(*n >= least) || !(*n <= most))
    return error{ec::bad_request,
                 "groups: " + name + ": expected a number from "
                   + format_number(static_cast<double>(least)) + " to "
                   + format_number(static_cast<double>(most)) + ", found "
                   + shown(text),
                 {}};
  to = n;
  return {};
}

/// Reads a parameter: a name, and a value in the next word.
result<void> read_parameter(const std::string& name, const std::string& value,
                            given_item& out) {
  constexpr uint64_t batch_limit = 4096, rows_limit = 1'000'000;
  constexpr uint64_t at_once_max = 256;
  constexpr double share_min = 1e-3, weight_min = 1e-3, weight_max = 1e3;
  if (name == "share")
    return read_number(name, value, out.share, share_min, 1.);
  if (name == "batch")
    return read_number<uint64_t>(name, value, out.batch, 1, batch_limit);
  if (name == "batch-max")
    return read_number<uint64_t>(name, value, out.batch_max, 1, rows_limit);
  if (name == "concurrency")
    return read_number<uint64_t>(name, value, out.concurrency, 1, at_once_max);
  if (name == "threads")
    return read_number<uint64_t>(name, value, out.threads, 1, at_once_max);
  if (name == "weight")
    return read_number(name, value, out.weight, weight_min, weight_max);
  return error{ec::bad_request,
               "groups: no parameter " + shown(name)
                 + " (expected on, share, batch, batch-max, concurrency,"
                   " threads or weight)",
               {}};
}

result<given_item> parse_item(const std::string& text) {
  std::istringstream words{text};
  given_item out;
  if (!read_shape(words, out))
    return not_an_item(text);
  for (std::string word, value; words >> word;) {
    if (auto n = number_in<uint64_t>(word.substr(1)); word[0] == 'x' && n) {
      out.copies = *n;
      continue;
    }
    if (!(words >> value))
      return not_an_item(text);
    if (word == "on")
      out.device = value;
    else if (auto fine = read_parameter(word, value, out); !fine)
      return fine.failure();
  }
  if (out.batch_max && *out.batch_max < out.batch.value_or(1))
    return error{ec::bad_request,
                 "groups: batch-max of " + shown(text)
                   + " is below its batch (expected at least "
                   + std::to_string(*out.batch) + ")",
                 {}};
  if (out.copies == 0 || out.copies > most_of_a_part || out.parts > most_parts)
    return error{ec::bad_request,
                 "groups: expected 1 to " + std::to_string(most_of_a_part)
                   + " copies and up to " + std::to_string(most_parts)
                   + " parts, found " + shown(text),
                 {}};
  return out;
}

/// The shape and the device of an item.
std::string place_of(const given_item& x) {
  auto out =
    x.parts == 1 ? std::string{"whole"}
    : x.cuts.empty()
      ? std::to_string(x.parts) + "-parts"
      : "cuts-" + joined(x.cuts, "-", [](auto c) { return std::to_string(c); });
  return x.device.empty() ? out : out + "@" + x.device;
}

/// Unique among the items.
std::string key_of(const given_item& x) {
  auto out = place_of(x);
  return x.number == 1 ? out : out + "#" + std::to_string(x.number);
}

void set_parameters(const given_item& x, replica_group& out) {
  out.share = x.share.value_or(out.share);
  out.batch_max = x.batch_max.value_or(out.batch_max);
  auto& tuned = out.tuned;
  tuned.batch = x.batch.value_or(tuned.batch);
  tuned.concurrency = x.concurrency.value_or(tuned.concurrency);
  tuned.threads = x.threads.value_or(tuned.threads);
  tuned.weight = x.weight.value_or(tuned.weight);
  if (out.batch_max != 0)
    out.batch_max = std::max(out.batch_max, tuned.batch);
  tuned.rows_max = out.batch_max;
}

} // namespace

bool given_item::is_like(const given_item& other) const {
  auto parameters = [](const given_item& y) {
    return std::tie(y.parts, y.cuts, y.device, y.share, y.batch, y.batch_max,
                    y.concurrency, y.threads, y.weight);
  };
  return parameters(*this) == parameters(other);
}

result<std::vector<given_item>> parse_given(const std::string& text) {
  std::vector<given_item> out;
  std::istringstream items{text};
  for (std::string item; std::getline(items, item, ';');) {
    auto x = parse_item(item);
    if (!x)
      return x.failure();
    for (auto& other : out)
      x->number += place_of(other) == place_of(*x);
    if (std::any_of(out.begin(), out.end(),
                    [&](auto& other) { return other.is_like(*x); }))
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
given_scaling::make(const std::string& scope, const given_options& options) {
  auto items = parse_given(options.groups);
  if (!items)
    return items.failure();
  auto devices = parse_shared(options.devices);
  if (!devices)
    return devices.failure();
  return std::shared_ptr<const scaling_policy>{std::make_shared<given_scaling>(
    scope, options.groups, std::move(*items), std::move(*devices))};
}

proposal given_scaling::propose(const cluster_snapshot& snapshot,
                                policy_memory&, random_stream&,
                                timestamp) const {
  proposal out;
  out.devices = devices_;
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
        set_parameters(item, g);
        out.groups.push_back(std::move(g));
      }
      is.settings.device = snapshot.models.at(model)->settings.device;
    }
  }
  return out;
}

} // namespace millrace
