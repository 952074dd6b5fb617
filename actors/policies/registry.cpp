// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/registry.hpp"

#include <algorithm>

#include "actors/policies/place/least_loaded.hpp"
#include "actors/policies/place/pack.hpp"
#include "actors/policies/place/two_stage.hpp"
#include "actors/policies/scale/arrival_rate.hpp"
#include "actors/policies/scale/fixed.hpp"
#include "actors/policies/scale/given.hpp"
#include "actors/policies/scale/infaas.hpp"
#include "actors/policies/scale/invocations.hpp"
#include "actors/policies/scale/paldia.hpp"
#include "actors/policies/scale/quart.hpp"
#include "actors/policies/scale/queue_latency.hpp"
#include "actors/policies/scale/usher.hpp"
#include "actors/policies/scale/utilisation.hpp"
#include "actors/policies/state/scopes.hpp"
#include "runtime/name.hpp"

namespace millrace {

namespace {

template <class Interface, class Policy, class Options, class... Context>
result<std::shared_ptr<const Interface>> make(const option_texts& texts,
                                              const Context&... context) {
  auto options = read_options<Options>(texts);
  if (!options)
    return options.failure();
  if constexpr (requires { Policy::make(context..., *options); })
    return Policy::make(context..., *options);
  else
    return std::shared_ptr<const Interface>{
      std::make_shared<Policy>(context..., *options)};
}

template <class Options>
std::vector<std::vector<std::string>> option_rows() {
  std::vector<std::vector<std::string>> out;
  Options plain;
  detail::each_option(plain, [&]<class M>(std::string_view name, M& member,
                                          const note& its) {
    std::string standard, limits;
    if constexpr (limited<M>) {
      standard = number_text(member);
      limits = limits_text<M>(its);
    }
    out.push_back({std::string{name}, standard, limits, std::string{its.says}});
  });
  return out;
}

template <class Policy, class Options>
scaling_entry scaling(std::string name, std::string says) {
  return {std::move(name), std::move(says),
          make<scaling_policy, Policy, Options, std::string>,
          option_rows<Options>};
}

template <class Policy, class Options>
placement_entry placing(std::string name, std::string says) {
  return {std::move(name), std::move(says),
          make<placement_policy, Policy, Options>, option_rows<Options>};
}

/// Makes the policy with a name; an empty name stands for the first entry.
template <class Interface, class... Context>
result<std::shared_ptr<const Interface>>
make_by_name(const std::vector<policy_entry<Interface, Context...>>& all,
             const std::string& name, const option_texts& options,
             const Context&... context) {
  auto found = name.empty()
                 ? all.begin()
                 : std::find_if(all.begin(), all.end(),
                                [&](auto& y) { return y.name == name; });
  if (found == all.end())
    return error{ec::bad_request,
                 "policy: expected one of "
                   + joined(all, ", ", [](auto& y) { return y.name; })
                   + ", found " + shown(name),
                 {}};
  auto out = found->make(options, context...);
  if (!out)
    return std::move(out.failure()).within("options");
  return out;
}

} // namespace

const std::vector<scaling_entry>& scaling_policies() {
  static const std::vector<scaling_entry> all{
    scaling<fixed_scaling, fixed_options>(
      "fixed", "the replicas that the settings of a model name"),
    scaling<given_scaling, given_options>(
      "given",
      "the groups that its option lists, of several cuts side by side"),
    scaling<arrival_rate_scaling, arrival_rate_options>(
      "arrival_rate", "as many replicas as serve the rate of arrivals"),
    scaling<queue_latency_scaling, queue_latency_options>(
      "queue_latency", "more replicas while requests wait too long"),
    scaling<invocations_scaling, invocations_options>(
      "invocations", "as many replicas as share the requests at a target"),
    scaling<utilisation_scaling, utilisation_options>(
      "utilisation", "as many replicas as compute a target part of their time"),
    scaling<paldia_scaling, paldia_options>(
      "paldia", "a kind of device by its price, and how batches share it"),
    scaling<quart_scaling, quart_options>(
      "quart", "more replicas of the pipeline stages where requests wait"),
    scaling<usher_scaling, usher_options>(
      "usher",
      "replicas of several models side by side on fixed devices, by occupancy"),
    scaling<wao_usher_scaling, usher_options>(
      "wao-usher", "as usher, by weighted average achieved occupancy"),
    scaling<infaas_scaling, infaas_options>(
      "infaas",
      "the cheapest variants of an application that serve the arrivals"),
  };
  return all;
}

result<std::shared_ptr<const scaling_policy>>
make_scaling_policy(const std::string& scope, const scope_settings& settings) {
  return make_by_name(scaling_policies(), settings.policy, settings.options,
                      scope);
}

const std::vector<placement_entry>& placement_policies() {
  static const std::vector<placement_entry> all{
    placing<least_loaded_placement, least_loaded_options>(
      "least_loaded", "the device with the fewest replicas"),
    placing<pack_placement, pack_options>("pack",
                                          "the fullest device with room"),
    placing<two_stage_placement, two_stage_options>(
      "two_stage",
      "devices of hosts that have the model, then one of each other host")};
  return all;
}

result<std::shared_ptr<const placement_policy>>
make_placement_policy(const placement_settings& settings) {
  return make_by_name(placement_policies(), settings.policy, settings.options);
}

namespace {

result<void> check_scope_name(const std::string& x) {
  if (x == "cluster")
    return {};
  auto slash = x.find('/');
  auto kind = x.substr(0, slash);
  if (slash == std::string::npos
      || (kind != "model" && kind != "application" && kind != "pool"))
    return error{ec::bad_request,
                 "expected model/NAME, application/NAME, pool/NAME or cluster,"
                 " found "
                   + shown(x),
                 {}};
  return check_name(kind, x.substr(slash + 1));
}

class scaling_checker {
public:
  scaling_checker(const std::vector<model_settings>& models,
                  const std::map<std::string, scope_settings>& scopes)
    : models_(models),
      scopes_(scopes) {}

  std::vector<scaling_trouble> run() {
    for (auto& [name, x] : scopes_)
      check_scope(name, x);
    for (size_t i = 0; i < models_.size(); ++i)
      check_model("models[" + std::to_string(i) + "].scaling", models_[i]);
    return std::move(troubles_);
  }

private:
  void refuse(std::string key, std::string why) {
    troubles_.push_back({std::move(key), std::move(why)});
  }

  void check_policy(const std::string& key, const std::string& scope,
                    const scope_settings& x) {
    auto made = make_scaling_policy(scope, x);
    if (made)
      return;
    // The text begins with the key within these settings.
    auto text = made.failure().text;
    auto colon = text.find(": ");
    auto inner = text.substr(0, colon);
    refuse(key + "." + inner, text.substr(colon + 2));
  }

  void check_scope(const std::string& name, const scope_settings& x) {
    auto key = "scopes." + name;
    if (auto fine = check_scope_name(name); !fine)
      return refuse(key, fine.failure().text);
    if (!x.policy.empty() || !x.options.empty())
      check_policy(key, name, x);
  }

  void check_model(const std::string& key, const model_settings& m) {
    auto& x = m.scaling;
    if (x.min > x.max)
      refuse(key + ".min", "is " + std::to_string(x.min)
                             + ", more than max, which is "
                             + std::to_string(x.max));
    auto own = "model/" + m.model;
    auto scope = scope_of(m);
    if (auto fine = check_scope_name(scope); !fine)
      return refuse(key + ".scope", fine.failure().text);
    if (scope.starts_with("model/") && scope != own)
      return refuse(key + ".scope", "is the scope of another model (expected "
                                      + own + ", or one of several models)");
    auto short_hand = !x.policy.empty() || !x.options.empty();
    auto i = scopes_.find(scope);
    if (short_hand && scope != own)
      return refuse(key + (x.policy.empty() ? ".options" : ".policy"),
                    "stands beside scope " + scope
                      + ", which decides for the model (expected it under"
                        " scopes."
                      + scope + ")");
    if (short_hand && i != scopes_.end() && !i->second.policy.empty())
      return refuse(key + ".policy", "stands beside scopes." + scope
                                       + ".policy (expected only one)");
    if (scope != own && i == scopes_.end())
      return refuse(key + ".scope",
                    "is not configured (expected scopes." + scope + ")");
    auto effective = settings_of_scope(scope, scopes_, m);
    if (short_hand)
      check_policy(key, scope, effective);
    if (x.parts == growth::automatic)
      check_automatic_parts(key, m, scope, effective);
    if (is_fixed_policy(effective.policy))
      return;
    if (!m.replicas_of_parts.empty())
      refuse(key.substr(0, key.size() - 7) + "replicas_of_parts",
             "does nothing with policy " + effective.policy
               + ", which counts whole copies (expected policy fixed)");
  }

  void check_automatic_parts(const std::string& key, const model_settings& m,
                             const std::string& scope,
                             const scope_settings& effective) {
    auto model = key.substr(0, key.size() - 7);
    auto given = [&](bool is, const std::string& name) {
      if (is)
        refuse(model + name, "stands beside scaling.parts: auto, which cuts"
                             " each scale-up by itself (expected only one)");
    };
    given(m.parts > 1, "parts");
    given(!m.cuts.empty(), "cuts");
    given(m.complete, "complete");
    auto made = make_scaling_policy(scope, effective);
    if (made && dynamic_cast<const count_policy*>(made->get()) == nullptr)
      refuse(key + ".parts",
             "does nothing with policy "
               + (effective.policy.empty() ? "fixed" : effective.policy)
               + " (expected one that counts replicas of one model:"
                 " arrival_rate, queue_latency, invocations or utilisation)");
  }

  const std::vector<model_settings>& models_;
  const std::map<std::string, scope_settings>& scopes_;
  std::vector<scaling_trouble> troubles_;
};

} // namespace

std::vector<scaling_trouble>
check_scaling(const std::vector<model_settings>& models,
              const std::map<std::string, scope_settings>& scopes) {
  return scaling_checker{models, scopes}.run();
}

} // namespace millrace
