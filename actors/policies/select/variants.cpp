// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/select/variants.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "runtime/text.hpp"

namespace millrace {

namespace {

result<size_t> by_name(const std::vector<variant_view>& xs,
                       const selection_request& wanted) {
  auto version = wanted.version.empty() ? "default" : wanted.version;
  auto is_named = [&](const variant_view& x) {
    return std::to_string(x.version) == version
           || std::count(x.aliases.begin(), x.aliases.end(), version) != 0;
  };
  auto rank = [&](const variant_view& x) {
    return std::tuple{x.ready, is_named(x), x.version};
  };
  std::optional<size_t> best;
  bool known = false;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].model != wanted.model)
      continue;
    known = true;
    if (!wanted.version.empty() && !is_named(xs[i]))
      continue;
    if (!best || rank(xs[i]) > rank(xs[*best]))
      best = i;
  }
  if (best)
    return *best;
  std::set<std::string> there;
  for (auto& x : xs)
    if (!known || x.model == wanted.model)
      there.insert(known ? std::to_string(x.version) : x.model);
  return error{
    ec::unknown_model,
    (known ? "no version " + shown(wanted.version) + " of model "
               + shown(wanted.model)
           : "no model " + shown(wanted.model))
      + (there.empty()
           ? std::string{"; none is served"}
           : "; there is " + joined(there, ", ", [](auto& s) { return s; })),
    {}};
}

bool fits(const variant_view& x, const selection_request& wanted) {
  return (!wanted.accuracy || x.accuracy.value_or(0) >= *wanted.accuracy)
         && (!wanted.latency || x.latency <= *wanted.latency);
}

result<size_t> by_application(const std::vector<variant_view>& xs,
                              const selection_request& wanted) {
  std::optional<size_t> best, loadable;
  bool known = false, would_do = false;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].application != wanted.application)
      continue;
    known = true;
    if (!fits(xs[i], wanted))
      continue;
    would_do = true;
    if (xs[i].ready && (!best || xs[i].latency < xs[*best].latency))
      best = i;
    if (xs[i].waits && (!loadable || xs[i].latency < xs[*loadable].latency))
      loadable = i;
  }
  if (!best)
    best = loadable;
  if (best)
    return *best;
  auto name = "application " + shown(wanted.application);
  if (!known)
    return error{ec::unknown_model, "no model of " + name, {}};
  if (would_do)
    return error{ec::unavailable, "no variant of " + name + " is ready", {}};
  return error{ec::unavailable,
               "no served variant of " + name + " is accurate and quick enough",
               {}};
}

} // namespace

result<size_t> choose_variant(const std::vector<variant_view>& xs,
                              const selection_request& wanted) {
  if (!wanted.model.empty())
    return by_name(xs, wanted);
  if (!wanted.application.empty())
    return by_application(xs, wanted);
  return error{ec::bad_request,
               "the request names neither 'model' nor"
               " 'application'",
               {}};
}

} // namespace millrace
