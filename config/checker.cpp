// SPDX-License-Identifier: Apache-2.0
#include "config/checker.hpp"

#include <set>

#include "actors/policies/registry.hpp"
#include "actors/policies/scale/given.hpp"
#include "actors/policies/state/scopes.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "transport/messages/wanted_cuts.hpp"

namespace millrace {

void config_checker::refuse(const std::string& key, const std::string& why) {
  fail({ec::bad_config, reader_.where(key) + why, {}});
}

void config_checker::fail(error why) {
  constexpr size_t most = 10;
  if (++told_ == 1)
    error_ = std::move(why);
  else if (told_ <= most)
    error_->text += "\n" + why.text;
  else if (told_ == most + 1)
    error_->text += "\nand more";
}

result<void> config_checker::outcome() const {
  if (error_)
    return *error_;
  return {};
}

std::string config_checker::at(const std::string& list, size_t i) {
  return list + "[" + std::to_string(i) + "]";
}

void config_checker::named(const std::string& key, std::string_view kind,
                           const std::string& name) {
  if (auto fine = check_name(kind, name); !fine)
    refuse(key, fine.failure().text);
}

void config_checker::check_link(const link_config& link) {
  if (link.timeout < 2 * link.beat)
    refuse("link.timeout", "expected at least two beats ("
                             + format_duration(2 * link.beat) + "), found "
                             + format_duration(link.timeout));
}

void config_checker::check_models(
  const std::vector<model_settings>& xs,
  const std::map<std::string, scope_settings>& scopes,
  const demand_settings& demand) {
  std::set<std::string> seen;
  for (size_t i = 0; i < xs.size(); ++i) {
    auto key = at("models", i) + ".model";
    named(key, "model", xs[i].model);
    if (!seen.insert(xs[i].model).second)
      refuse(key, shown(xs[i].model) + " is there twice");
    auto& x = xs[i];
    if (auto fine = check_cuts(wanted_cuts(x)); !fine)
      refuse(at("models", i), fine.failure().text);
    if (auto fine = check_batch(x.policy); !fine)
      refuse(at("models", i), fine.failure().text);
  }
  check_scaling_of(xs, scopes, demand);
}

void config_checker::check_scaling_of(
  const std::vector<model_settings>& models,
  const std::map<std::string, scope_settings>& scopes,
  const demand_settings& demand) {
  for (auto& x : check_scaling(models, scopes))
    refuse(x.key, x.why);
  for (size_t i = 0; i < models.size(); ++i) {
    auto& x = models[i];
    auto its = settings_of_scope(scope_of(x), scopes, x);
    if (is_fixed_policy(its.policy))
      continue;
    auto key = at("models", i);
    if (given(key + ".replicas"))
      refuse(key + ".replicas", "does nothing with policy " + its.policy
                                  + " (expected scaling.min and max)");
    if (demand.period == microseconds{0})
      refuse(key + ".scaling", "has policy " + its.policy
                                 + ", which needs reports of demand (expected"
                                   " a demand.period above 0)");
  }
}

void config_checker::check_placement(const placement_settings& settings) {
  auto made = make_placement_policy(settings);
  if (made)
    return;
  // The error text begins with the key, relative to these settings.
  auto text = made.failure().text;
  auto colon = text.find(": ");
  refuse("placement." + text.substr(0, colon), text.substr(colon + 2));
}

void config_checker::check_devices_of(
  const std::vector<model_settings>& models,
  const std::map<std::string, scope_settings>& scopes,
  const std::map<std::string, node_config>& nodes) {
  std::set<std::string> known;
  for (auto& [name, node] : nodes)
    for (auto& d : node.devices)
      known.insert({d.id, d.kind, name + "/" + d.id});
  auto check = [&](const std::string& key, const std::string& device) {
    if (!device.empty() && !known.contains(device))
      refuse(key, "no node has a device " + shown(device) + " (expected one of "
                    + joined(known, ", ", std::identity{}) + ")");
  };
  auto check_shared = [&](const std::string& key, const std::string& text) {
    auto plans = parse_shared(text);
    if (!plans)
      return;
    for (auto& plan : *plans) {
      check(key, plan.device);
      for (auto& [name, node] : nodes)
        for (auto& d : node.devices)
          if (selects_device(plan.device, name, d.id, d.kind))
            if (auto fits = check_at_once(plan.sharing, d.lanes_or_default());
                !fits)
              refuse(key, shown(name + "/" + d.id) + ": at once "
                            + fits.failure().text);
    }
  };
  auto check_groups = [&](const std::string& key, const std::string& policy,
                          const option_texts& options) {
    if (policy != "given")
      return;
    if (auto groups = options.find("groups"); groups != options.end())
      if (auto items = parse_given(groups->second))
        for (auto& item : *items)
          check(key + ".options.groups", item.device);
    if (auto devices = options.find("devices"); devices != options.end())
      check_shared(key + ".options.devices", devices->second);
  };
  for (size_t i = 0; i < models.size(); ++i) {
    check(at("models", i) + ".device", models[i].device);
    check_groups(at("models", i) + ".scaling", models[i].scaling.policy,
                 models[i].scaling.options);
  }
  for (auto& [name, x] : scopes)
    check_groups("scopes." + name, x.policy, x.options);
}

void config_checker::check_no_pools(
  const std::map<std::string, scope_settings>& scopes) {
  for (auto& [name, x] : scopes)
    if (!x.pool.empty())
      refuse("scopes." + name + ".pool",
             "there is no pool " + shown(x.pool)
               + ": machines are simulated only (expected no pool here, or a"
                 " scenario with 'pools')");
}

void config_checker::check_emulation(const std::string& key,
                                     const emulation& settings,
                                     uint32_t lanes) {
  constexpr double most = 100; // as for a linear slowdown
  check_contention(key + ".interference", settings.interference, lanes);
  for (auto& [pair, slowdown] : settings.interference.pairs) {
    auto where = key + ".interference.pairs." + pair;
    auto plus = pair.find('+');
    if (plus == std::string::npos || plus == 0 || plus + 1 == pair.size())
      refuse(where, "expected MODEL+NEIGHBOUR");
    if (!(slowdown >= 0 && slowdown <= most))
      refuse(where,
             "expected between 0 and 100, found " + format_number(slowdown));
  }
}

void config_checker::check_contention(const std::string& key,
                                      const contention_settings& settings,
                                      uint32_t lanes) {
  using enum contention_kind;
  only_of({power}, settings.model, key + ".factor");
  only_of({wsm}, settings.model, key + ".kappa");
  only_of({table}, settings.model, key + ".slowdowns");
  only_of({drawn}, settings.model, key + ".extra_min");
  only_of({drawn}, settings.model, key + ".extra_max");
  if (settings.extra_min > settings.extra_max)
    refuse(key + ".extra_min",
           "is above extra_max (" + format_number(settings.extra_max) + ")");
  if (settings.model == table
      && settings.slowdowns.size() < std::max(1u, lanes))
    refuse(key + ".slowdowns", "expected at least "
                                 + std::to_string(std::max(1u, lanes))
                                 + " (lanes of the device), found "
                                 + std::to_string(settings.slowdowns.size()));
  for (size_t i = 0; i < settings.slowdowns.size(); ++i)
    if (!(settings.slowdowns[i] >= 1 && settings.slowdowns[i] <= 100))
      refuse(at(key + ".slowdowns", i),
             "expected between 1 and 100, found "
               + format_number(settings.slowdowns[i]));
}

void config_checker::check_device_sharing(const std::string& key,
                                          const device_sharing& settings,
                                          uint32_t lanes) {
  auto at_once = key + ".sharing.at_once";
  only_of({sharing_mode::wave, sharing_mode::cap}, settings.mode, at_once);
  if (auto fits = check_at_once(settings, lanes); !fits)
    refuse(at_once, fits.failure().text);
}

} // namespace millrace
