// SPDX-License-Identifier: Apache-2.0
#include "millrace/explore.hpp"

#include <iostream>

#include "millrace/child.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

using namespace simulator;

/// Seeds that one process explores.
constexpr size_t chunk = 50;

/// Of so many seeds one is run twice, to see that it does the same (P20).
constexpr uint64_t again_every = 20;

/// Fewer requests in a run show nothing (P22).
constexpr uint64_t fewest_requests = 100;

/// What many seeds showed together.
struct findings {
  uint64_t seeds = 0, events = 0, messages = 0, requests = 0;
  uint64_t faults = 0, hits = 0, twice = 0;
  std::map<std::string, uint64_t> statuses, kinds, probes;
  std::vector<std::string> violations; ///< a line each
  MILLRACE_FIELDS(findings, seeds, events, messages, requests, faults, hits,
                  twice, statuses, kinds, probes, violations)

  void add(const findings& x) {
    seeds += x.seeds;
    events += x.events;
    messages += x.messages;
    requests += x.requests;
    faults += x.faults;
    hits += x.hits;
    twice += x.twice;
    for (auto [mine, theirs] : {std::pair{&statuses, &x.statuses},
                                {&kinds, &x.kinds},
                                {&probes, &x.probes}})
      for (auto& [name, n] : *theirs)
        (*mine)[name] += n;
    violations.insert(violations.end(), x.violations.begin(),
                      x.violations.end());
  }
};

void describe(const loaded_scenario& what, const seed_result& x,
              const exploration& how, findings& out) {
  auto fewest = shortest_prefix(what, x, how);
  for (auto& v : x.violations)
    out.violations.push_back(
      "seed " + std::to_string(x.seed) + ", first " + std::to_string(fewest)
      + " of " + std::to_string(x.faults.size()) + " faults: " + v.invariant
      + " at " + format_duration(v.at - what.spec.warm_up) + ": " + v.what);
}

result<findings> explore_some(const loaded_scenario& what, uint64_t first,
                              size_t count, const exploration& how) {
  findings out;
  for (auto seed = first; seed < first + count; ++seed) {
    auto x = explore_seed(what, seed, how);
    if (!x)
      return x.failure();
    ++out.seeds;
    out.events += x->events;
    out.messages += x->messages;
    out.requests += x->requests;
    out.faults += x->faults.size();
    out.hits += x->hits;
    for (auto& f : x->faults)
      ++out.kinds[std::string{to_string(f.kind)}];
    for (auto& [status, n] : x->statuses)
      out.statuses[status] += n;
    for (auto& [name, n] : x->probes)
      out.probes[name] += n;
    if (x->violations.empty() && x->requests < fewest_requests)
      x->violations.push_back(
        {"P22", "only " + std::to_string(x->requests) + " requests", {}});
    if (x->violations.empty() && seed % again_every == 0) {
      ++out.twice;
      auto y = explore_seed(what, seed, how);
      if (y && y->hash != x->hash)
        x->violations.push_back({"I30", "a second run differs", {}});
    }
    if (!x->violations.empty())
      describe(what, *x, how, out);
  }
  return out;
}

/// As a child printed it.
bool read_findings(const std::string& text, findings& out) {
  auto x = json::parse(text, nullptr, false);
  if (!x.is_object() || !x.contains("seeds"))
    return false;
  for_each_field(out, [&](std::string_view name, auto& member) {
    x[std::string{name}].get_to(member);
  });
  return true;
}

template <class Map>
std::string listed(const Map& xs) {
  return joined(
    xs, ", ", [](auto& x) { return x.first + " " + std::to_string(x.second); });
}

/// For who replays one seed.
void print_faults(const loaded_scenario& what, uint64_t seed,
                  const exploration& how) {
  for (auto& f : faults_of(what, seed, how))
    std::printf("fault      %s\n", to_string(f).c_str());
}

int print_findings(const findings& x, const loaded_scenario& what,
                   double seconds, const common_options& common) {
  if (common.json) {
    std::cout << to_json(x).dump() << std::endl;
    return x.violations.empty() ? exit_ok : exit_failed;
  }
  std::printf("%s: %llu seeds, %llu events checked, %llu actor messages, %llu"
              " requests, %.1f s\n",
              what.spec.name.c_str(), static_cast<unsigned long long>(x.seeds),
              static_cast<unsigned long long>(x.events),
              static_cast<unsigned long long>(x.messages),
              static_cast<unsigned long long>(x.requests), seconds);
  std::printf("faults     %llu, of them %llu while requests were open: %s\n",
              static_cast<unsigned long long>(x.faults),
              static_cast<unsigned long long>(x.hits), listed(x.kinds).c_str());
  std::printf("answers    %s\n", listed(x.statuses).c_str());
  std::printf("probes     %s\n", listed(x.probes).c_str());
  std::printf("run twice  %llu seeds\n",
              static_cast<unsigned long long>(x.twice));
  if (x.violations.empty()) {
    std::printf("violations none: fewer than %.2g per seed (95 %%)\n",
                3.0 / static_cast<double>(x.seeds));
    return exit_ok;
  }
  std::printf("violations\n");
  for (auto& v : x.violations)
    std::printf("  %s\n", v.c_str());
  std::printf("replay one with --explore 1 --seed SEED --faults NUMBER\n");
  return exit_failed;
}

} // namespace

int run_explore(const loaded_scenario& what, uint64_t first, size_t count,
                const exploration& how, const std::vector<std::string>& again,
                const common_options& common) {
  auto begun = std::chrono::steady_clock::now();
  auto took = [&] {
    return to_seconds(std::chrono::steady_clock::now() - begun);
  };
  if (count <= chunk) {
    auto found = explore_some(what, first, count, how);
    if (!found)
      return fail(common, found.failure());
    if (count == 1 && !common.json)
      print_faults(what, first, how);
    return print_findings(*found, what, took(), common);
  }
  auto chunks = (count + chunk - 1) / chunk;
  std::vector<findings> parts(chunks);
  std::vector<std::string> failed(chunks);
  progress_bar bar{"explore", !common.json};
  do_all(
    chunks,
    [&](size_t i) {
      auto args = again;
      args.insert(args.end(),
                  {"--explore",
                   std::to_string(std::min(chunk, count - i * chunk)), "--seed",
                   std::to_string(first + i * chunk), "--json"});
      auto text = child{args}.wait();
      if (!read_findings(text, parts[i]))
        failed[i] = "seeds from " + std::to_string(first + i * chunk)
                    + " ended without a result: " + shown(text, 200);
    },
    [&](size_t done) {
      auto seeds = std::min(count, done * chunk);
      bar.show(static_cast<double>(done) / static_cast<double>(chunks),
               std::to_string(seeds) + " seeds, "
                 + fixed(static_cast<double>(seeds) / took(), 0) + "/s");
    });
  bar.done();
  findings all;
  for (size_t i = 0; i < chunks; ++i) {
    all.add(parts[i]);
    if (!failed[i].empty())
      all.violations.push_back(failed[i]);
  }
  return print_findings(all, what, took(), common);
}

} // namespace millrace
