// SPDX-License-Identifier: Apache-2.0
#include "millrace/explore.hpp"

#include <iostream>

#include "millrace/child.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "millrace/run_files.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

using namespace simulator;

/// Seeds that one process explores.
constexpr size_t chunk = 50;

/// Of so many seeds one is run twice, to see that it does the same (P20).
constexpr uint64_t again_every = 20;

/// A run with fewer requests, or none of its faults while one was open in many
/// runs, shows nothing (P22).
constexpr uint64_t fewest_requests = 100;
constexpr double fewest_hits = 0.25; ///< of the faults
constexpr uint64_t enough_faults = 100;

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

std::string in_seed(const seed_result& x, const std::string& what) {
  return "seed " + std::to_string(x.seed) + ", " + what;
}

void describe(const loaded_scenario& what, const seed_result& x,
              const exploration& how, findings& out) {
  if (x.violations.empty())
    return;
  auto fewest = shortest_prefix(what, x, how);
  for (auto& v : x.violations)
    out.violations.push_back(
      in_seed(x, "first " + std::to_string(fewest) + " of "
                   + std::to_string(x.faults.size()) + " faults: " + v.invariant
                   + " at " + format_duration(v.at - what.spec.warm_up) + ": "
                   + v.what));
}

/// The same twice, with something going on, is worth a look.
result<void> look_at(const loaded_scenario& what, const seed_result& x,
                     const exploration& how, findings& out) {
  if (!x.violations.empty())
    return {};
  if (x.requests < fewest_requests)
    out.violations.push_back(
      in_seed(x, "P22: only " + std::to_string(x.requests) + " requests"));
  if (!how.faults && x.faults.empty())
    out.violations.push_back(in_seed(x, "P22: not one fault"));
  if (x.seed % again_every != 0)
    return {};
  ++out.twice;
  auto y = explore_seed(what, x.seed, how);
  if (!y)
    return y.failure();
  if (y->hash != x.hash)
    out.violations.push_back(in_seed(x, "I30: a second run differs"));
  return {};
}

result<findings> explore_some(const loaded_scenario& what,
                              const explore_call& call) {
  findings out;
  for (auto seed = call.first; seed < call.first + call.count; ++seed) {
    auto x = explore_seed(what, seed, call.how);
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
    describe(what, *x, call.how, out);
    if (auto done = look_at(what, *x, call.how, out); !done)
      return done.failure();
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

/// For who replays one seed.
void print_faults(const loaded_scenario& what, uint64_t seed,
                  const exploration& how) {
  for (auto& f : faults_of(what, seed, how))
    std::printf("fault      %s\n", to_string(f).c_str());
}

/// What holds of all seeds together.
void check_probes(const loaded_scenario& what, findings& x) {
  if (x.faults >= enough_faults
      && static_cast<double>(x.hits)
           < fewest_hits * static_cast<double>(x.faults))
    x.violations.push_back("P22: only " + std::to_string(x.hits) + " of "
                           + std::to_string(x.faults)
                           + " faults while requests were open");
  if (x.seeds < what.spec.explore.probes_within)
    return;
  for (auto& name : what.spec.explore.probes)
    if (!x.probes.contains(name))
      x.violations.push_back("P21: " + name + " never happened in "
                             + std::to_string(x.seeds) + " seeds");
}

std::string again(const explore_call& x) {
  auto out = "millrace simulate " + x.file;
  for (auto& y : x.same)
    out += " " + y;
  return out + " --explore 1 --seed SEED --faults NUMBER --out DIRECTORY";
}

int print_findings(const findings& x, const loaded_scenario& what,
                   const explore_call& call, double seconds,
                   const common_options& common) {
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
  std::printf("look at one with\n  %s\n", again(call).c_str());
  return exit_failed;
}

/// One seed, with all there is of its run.
result<findings> explore_one(const loaded_scenario& what, explore_call call) {
  if (call.out.empty())
    return explore_some(what, call);
  if (auto done = make_run_directory(call.out); !done)
    return done.failure();
  recorder notes{what.spec.record, virtual_world::beginning + what.spec.warm_up,
                 what.spec.length};
  auto x = call.how;
  x.also = &notes;
  if (auto done = explore_seed(what, call.first, x); !done)
    return done.failure();
  auto kept = notes.take();
  auto found = summarise(what, call.first, kept);
  if (auto done = write_run(what, kept, found, call.out); !done)
    return done.failure();
  return explore_some(what, call);
}

result<findings> explore_many(const explore_call& call,
                              const common_options& common) {
  auto begun = std::chrono::steady_clock::now();
  auto chunks = (call.count + chunk - 1) / chunk;
  std::vector<findings> parts(chunks);
  std::vector<std::string> failed(chunks);
  progress_bar bar{"explore", !common.json};
  do_all(
    chunks,
    [&](size_t i) {
      std::vector<std::string> args{"simulate", call.file, "--json"};
      args.insert(args.end(), call.same.begin(), call.same.end());
      auto first = std::to_string(call.first + i * chunk);
      auto n = std::min(chunk, call.count - i * chunk);
      args.insert(args.end(),
                  {"--explore", std::to_string(n), "--seed", first});
      auto text = child{args}.wait();
      if (!read_findings(text, parts[i]))
        failed[i] = "seeds from " + first
                    + " ended without a result: " + shown(text, 200);
    },
    [&](size_t done) {
      auto seeds = std::min(call.count, done * chunk);
      auto took = to_seconds(std::chrono::steady_clock::now() - begun);
      bar.show(static_cast<double>(done) / static_cast<double>(chunks),
               std::to_string(seeds) + " seeds, "
                 + fixed(static_cast<double>(seeds) / took, 0) + "/s");
    });
  bar.done();
  findings all;
  for (size_t i = 0; i < chunks; ++i) {
    all.add(parts[i]);
    if (!failed[i].empty())
      all.violations.push_back(failed[i]);
  }
  return all;
}

} // namespace

int run_explore(const loaded_scenario& what, const explore_call& x,
                const common_options& common) {
  auto begun = std::chrono::steady_clock::now();
  auto found = x.count == 1       ? explore_one(what, x)
               : x.count <= chunk ? explore_some(what, x)
                                  : explore_many(x, common);
  if (!found)
    return fail(common, found.failure());
  if (x.count == 1 && !common.json)
    print_faults(what, x.first, x.how);
  check_probes(what, *found);
  return print_findings(*found, what, x,
                        to_seconds(std::chrono::steady_clock::now() - begun),
                        common);
}

} // namespace millrace
