// SPDX-License-Identifier: Apache-2.0

/// \file
/// `millrace decide`: replays recorded decisions with the same policy or
/// another one.

#include <algorithm>
#include <iostream>

#include "actors/policies/registry.hpp"
#include "actors/policies/scale/machines.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "actors/policies/state/deltas.hpp"
#include "millrace/decision_file.hpp"
#include "millrace/print.hpp"

namespace millrace {

namespace {

struct decide_options {
  std::string file;
  std::string policy;
  std::vector<std::string> set;
};

/// A recorded decision and the result of its replay.
struct replayed_decision {
  decision was;
  std::string policy; ///< the policy of the replay
  uint64_t to = 0;    ///< number of replicas of the replay
  std::string reason;
  bool same = false; ///< equal groups; with another policy, equal numbers
  MILLRACE_FIELDS(replayed_decision, was, policy, to, reason, same)
};

/// Errors: bad_request for a text other than KEY=VALUE.
result<option_texts> options_of(const std::vector<std::string>& pairs) {
  option_texts out;
  for (auto& pair : pairs) {
    auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return error{
        ec::bad_request, "--set: expected KEY=VALUE, found " + shown(pair), {}};
    out[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return out;
}

/// The snapshot with another policy for a scope.
cluster_snapshot under_policy(cluster_snapshot x, const std::string& scope,
                              const std::string& policy) {
  for (auto& [name, model] : x.models)
    if (model->scope == scope) {
      auto other = *model;
      other.elastic = !is_fixed_policy(policy) && other.settings.replicas > 0;
      model = std::make_shared<const model_state>(std::move(other));
    }
  return x;
}

/// Those of the given options that the policy has.
std::map<std::string, std::string>
options_known_to(const std::string& policy,
                 std::map<std::string, std::string> x) {
  for (auto& entry : scaling_policies())
    if (entry.name == policy) {
      auto rows = entry.options();
      std::erase_if(x, [&](auto& option) {
        return std::none_of(rows.begin(), rows.end(), [&](auto& row) {
          return row.front() == option.first;
        });
      });
    }
  return x;
}

/// Replays a decision. Errors: bad_request for a scope that the snapshot lacks,
/// and as make_scaling_policy.
result<replayed_decision> replay(const decision_record& x,
                                 const cluster_snapshot& snapshot,
                                 const decide_options& how) {
  auto& scope = x.what.scope;
  auto i = snapshot.scopes.find(scope);
  if (i == snapshot.scopes.end())
    return error{ec::bad_request,
                 "the snapshot of decision " + std::to_string(x.what.number)
                   + " has no scope " + shown(scope),
                 {}};
  auto settings = i->second->settings;
  auto options = options_of(how.set);
  if (!options)
    return options.failure();
  if (!how.policy.empty()) {
    settings.policy = how.policy;
    settings.options = options_known_to(how.policy, settings.options);
  }
  for (auto& [key, value] : *options)
    settings.options[key] = value;
  auto policy = make_scaling_policy(scope, settings);
  if (!policy)
    return policy.failure();
  auto memory = how.policy.empty() ? x.memory : policy_memory{};
  random_stream random{x.seed};
  auto now = timestamp{nanoseconds{x.now}};
  auto is =
    how.policy.empty()
      ? propose_with_machines(**policy, scope, snapshot, memory, random, now)
      : propose_with_machines(**policy, scope,
                              under_policy(snapshot, scope, how.policy), memory,
                              random, now);
  auto why = is.reasons.find(x.what.model);
  auto to = copies_in(is, x.what.model).value_or(0);
  auto same = how.policy.empty() ? is.groups == x.proposed.groups
                                     && is.refused == x.proposed.refused
                                     && is.machines == x.proposed.machines
                                 : to == x.what.to;
  return replayed_decision{
    x.what, settings.policy.empty() ? "fixed" : settings.policy, to,
    why == is.reasons.end() ? "" : why->second, same};
}

int run_decide(const decide_options& x, const common_options& common) {
  auto file = read_decisions(x.file);
  if (!file)
    return fail(common, file.failure());
  std::vector<replayed_decision> all;
  cluster_snapshot snapshot;
  for (auto& record : file->records) {
    auto next = apply(&snapshot, record.snapshot);
    if (!next)
      return fail(common, std::move(next.failure()).within(x.file));
    snapshot = std::move(*next);
    auto found = replay(record, snapshot, x);
    if (!found)
      return wrong_call(common, found.failure());
    all.push_back(std::move(*found));
  }
  auto same =
    std::count_if(all.begin(), all.end(), [](auto& y) { return y.same; });
  if (common.json) {
    std::cout << json_text(json{{"decisions", to_json(all)}, {"same", same}})
              << std::endl;
  } else {
    table rows{{"NUMBER", "MODEL", "FROM", "TO", "BY", "NOW", "BY", "REASON"}};
    for (auto& y : all)
      rows.push_back({std::to_string(y.was.number), y.was.model,
                      std::to_string(y.was.from), std::to_string(y.was.to),
                      y.was.policy, std::to_string(y.to), y.policy, y.reason});
    print_table(rows);
    std::cout << all.size() << " decision(s), " << same << " the same"
              << std::endl;
  }
  auto changed = !x.policy.empty() || !x.set.empty();
  return changed || same == static_cast<long>(all.size()) ? exit_ok
                                                          : exit_failed;
}

} // namespace

void add_decide_verb(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<decide_options>();
  auto* verb = add_subverb(
    app, "decide", "Replay recorded decisions with the same policy or another",
    common, run, [=, &common] { return run_decide(*x, common); });
  verb
    ->add_option("--record", x->file,
                 "File written by 'actor-shell record' or 'millrace simulate "
                 "--out' (decisions.record)")
    ->required();
  verb->add_option("--policy", x->policy,
                   "Scaling policy; recorded options that it has are kept. "
                   "Default: the policy that decided, with its recorded state");
  verb->add_option("--set", x->set,
                   "KEY=VALUE replaces an option of the policy; repeatable");
  verb->footer("Exit status 1 when the file cannot be read, or when the "
               "recorded policy now decides otherwise. With --policy or --set, "
               "another decision is no failure.");
}

} // namespace millrace
