// SPDX-License-Identifier: Apache-2.0
#include "simulator/replica_counts.hpp"

#include <map>
#include <optional>
#include <set>

#include "runtime/text.hpp"
#include "simulator/log_line.hpp"

namespace millrace::simulator {

namespace {

/// Changes of a model's counts at one moment.
struct change {
  int64_t reserved = 0;
  int64_t ready = 0;
  std::optional<int64_t> wanted;
};

using change_map = std::map<std::pair<microseconds, std::string>, change>;

/// A scope's decision takes precedence over the model's settings.
void add_wanted(const record& run, change_map& changes) {
  std::set<std::string> decided;
  for (auto& x : run.events) {
    auto scaled = x.what.starts_with("autoscaler.scaled");
    if (!scaled && !x.what.starts_with("registry.changed"))
      continue;
    std::string model{field_of(x.what, "model")};
    auto to = number_in<int64_t>(field_of(x.what, scaled ? "to" : "replicas"));
    if (!to || (!scaled && decided.contains(model)))
      continue;
    if (scaled)
      decided.insert(model);
    changes[{x.at, model}].wanted = *to;
  }
}

} // namespace

std::vector<replica_count> replica_counts(const record& run) {
  change_map changes;
  add_wanted(run, changes);
  for (auto& x : run.replicas) {
    auto& model = run.names[x.model];
    ++changes[{x.decided.value_or(x.begun), model}].reserved;
    if (x.ready)
      ++changes[{*x.ready, model}].ready;
    if (x.ended) {
      auto& end = changes[{*x.ended, model}];
      --end.reserved;
      end.ready -= x.ready.has_value();
    }
  }
  std::vector<replica_count> out;
  std::map<std::string, replica_count> now;
  for (auto& [when, x] : changes) {
    auto& count = now[when.second];
    auto before = count;
    count.at = when.first;
    count.model = when.second;
    count.wanted = x.wanted.value_or(count.wanted);
    count.reserved += x.reserved;
    count.ready += x.ready;
    if (count.wanted != before.wanted || count.reserved != before.reserved
        || count.ready != before.ready)
      out.push_back(count);
  }
  return out;
}

} // namespace millrace::simulator
