// SPDX-License-Identifier: Apache-2.0
#include "millrace/explore.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <iostream>
#include <mutex>
#include <set>

#include "millrace/child.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "millrace/run_files.hpp"
#include "millrace/violations.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

using namespace simulator;

/// Number of seeds that one process explores.
constexpr size_t chunk = 50;

/// Determinism check (P20): the first seed, and then every twentieth, is run
/// twice.
constexpr uint64_t again_every = 20;

/// Minimum number of requests of a run, and minimum share of faults while a
/// request was open, for a meaningful run (P22).
constexpr uint64_t fewest_requests = 100;
constexpr double fewest_hits = 0.25; ///< share of all faults
constexpr uint64_t enough_faults = 100;

/// The sums over many seeds.
struct findings {
  uint64_t seeds = 0, events = 0, messages = 0, requests = 0;
  uint64_t faults = 0, hits = 0, twice = 0;
  uint64_t hash = 0; ///< sum of the seeds' hashes
  std::map<std::string, uint64_t> statuses, kinds, probes;
  std::vector<broken_promise> violations;
  MILLRACE_FIELDS(findings, seeds, events, messages, requests, faults, hits,
                  twice, hash, statuses, kinds, probes, violations)

  void add(const findings& x) {
    seeds += x.seeds;
    events += x.events;
    messages += x.messages;
    requests += x.requests;
    faults += x.faults;
    hits += x.hits;
    twice += x.twice;
    hash += x.hash;
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
  if (x.violations.empty())
    return;
  auto enough = shortest_prefix(what, x, how);
  for (auto& v : x.violations)
    out.violations.push_back(
      {v.invariant,
       "at " + format_duration(v.at - what.spec.warm_up) + ": " + v.what,
       x.seed, x.faults.size(), enough});
}

/// Reports a seed that shows too little, or that is not deterministic.
result<void> look_at(const loaded_scenario& what, const seed_result& x,
                     const exploration& how, uint64_t first, findings& out) {
  if (!x.violations.empty())
    return {};
  if (x.requests < fewest_requests)
    out.violations.push_back(
      {"P22", "only " + std::to_string(x.requests) + " requests", x.seed});
  if (!how.faults && x.faults.empty())
    out.violations.push_back({"P22", "not one fault", x.seed});
  if (x.seed % again_every != 0 && x.seed != first)
    return {};
  ++out.twice;
  auto y = explore_seed(what, x.seed, how);
  if (!y)
    return y.failure();
  if (y->hash != x.hash)
    out.violations.push_back({"I30", "a second run differs", x.seed});
  return {};
}

/// Adds the results of one seed.
result<void> add_seed(const loaded_scenario& what, const seed_result& x,
                      const explore_call& call, findings& out) {
  ++out.seeds;
  out.events += x.events;
  out.messages += x.messages;
  out.requests += x.requests;
  out.faults += x.faults.size();
  out.hits += x.hits;
  out.hash += x.hash;
  for (auto& f : x.faults)
    ++out.kinds[std::string{to_string(f.kind)}];
  for (auto& [status, n] : x.statuses)
    out.statuses[status] += n;
  for (auto& [name, n] : x.probes)
    out.probes[name] += n;
  describe(what, x, call.how, out);
  return look_at(what, x, call.how, call.first, out);
}

result<findings> explore_some(const loaded_scenario& what,
                              const explore_call& call) {
  findings out;
  for (auto seed = call.first; seed < call.first + call.count; ++seed) {
    auto x = explore_seed(what, seed, call.how);
    if (!x)
      return x.failure();
    if (auto done = add_seed(what, *x, call, out); !done)
      return done.failure();
  }
  return out;
}

/// Parses the findings that a child process printed.
bool read_findings(const std::string& text, findings& out) {
  auto x = json::parse(text, nullptr, false);
  if (!x.is_object() || !x.contains("seeds"))
    return false;
  read_json(x, out);
  return true;
}

/// Prints the faults, for the replay of one seed.
void print_faults(const loaded_scenario& what, uint64_t seed,
                  const exploration& how) {
  for (auto& f : faults_of(what, seed, how))
    std::printf("fault      %s\n", to_string(f).c_str());
}

/// Checks P21 and P22 over all seeds.
void check_probes(const loaded_scenario& what, findings& x) {
  if (x.faults >= enough_faults
      && static_cast<double>(x.hits)
           < fewest_hits * static_cast<double>(x.faults))
    x.violations.push_back({"P22", "only " + std::to_string(x.hits) + " of "
                                     + std::to_string(x.faults)
                                     + " faults while requests were open"});
  if (x.seeds < what.spec.explore.probes_within)
    return;
  for (auto& name : what.spec.explore.probes)
    if (!x.probes.contains(name))
      x.violations.push_back({"P21", name + " never happened in "
                                       + std::to_string(x.seeds) + " seeds"});
}

/// An argument, quoted for a shell if needed.
std::string for_shell(const std::string& x) {
  auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0
           || std::strchr("-_./=:,+@%", c) != nullptr;
  };
  if (!x.empty() && std::all_of(x.begin(), x.end(), plain))
    return x;
  std::string out = "'";
  for (auto c : x)
    out += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return out + "'";
}

/// The command line that replays a violation.
std::string again(const explore_call& x, const broken_promise& found) {
  auto out = "millrace simulate " + for_shell(x.file);
  for (auto& y : x.same)
    out += " " + for_shell(y);
  out += " --explore 1 --seed " + std::to_string(*found.seed);
  if (found.enough)
    out += " --faults " + std::to_string(*found.enough);
  return out + " --out run";
}

int print_findings(const findings& x, const loaded_scenario& what,
                   const explore_call& call, double seconds,
                   const common_options& common) {
  if (common.json) {
    std::cout << json_text(to_json(x)) << std::endl;
    return x.violations.empty() ? exit_ok : exit_failed;
  }
  std::printf("%s: %llu seeds, %llu events checked, %llu actor messages, %llu"
              " requests, %.1f s\n",
              what.spec.name.c_str(), static_cast<unsigned long long>(x.seeds),
              static_cast<unsigned long long>(x.events),
              static_cast<unsigned long long>(x.messages),
              static_cast<unsigned long long>(x.requests), seconds);
  auto& vary = what.spec.explore.vary;
  std::printf("varied     %s\n",
              vary.empty() ? "nothing" : joined(vary, ", ", [](auto y) {
                                           return std::string{to_string(y)};
                                         }).c_str());
  std::printf("faults     %llu, %llu while requests were open: %s\n",
              static_cast<unsigned long long>(x.faults),
              static_cast<unsigned long long>(x.hits), listed(x.kinds).c_str());
  std::printf("answers    %s\n", listed(x.statuses).c_str());
  std::printf("probes     %s\n", listed(x.probes).c_str());
  std::printf("run twice  %llu seeds\n",
              static_cast<unsigned long long>(x.twice));
  std::printf("hash       %016llx\n", static_cast<unsigned long long>(x.hash));
  if (x.violations.empty()) {
    std::printf("violations none: fewer than %.2g per seed (95 %%)\n",
                3.0 / static_cast<double>(x.seeds));
    return exit_ok;
  }
  std::printf("violations %zu\n%s", x.violations.size(),
              violations_text(x.violations, terminal_width(), [&](auto& v) {
                return again(call, v);
              }).c_str());
  return exit_failed;
}

/// Explores one seed and writes all files of its run.
result<findings> explore_one(const loaded_scenario& what,
                             const explore_call& call) {
  recorder notes{virtual_world::beginning + what.spec.warm_up,
                 what.spec.length};
  auto x = explore_seed(what, call.first, call.how, &notes);
  if (!x)
    return x.failure();
  auto kept = notes.take();
  auto found = summarise(what, call.first, kept);
  found.messages = x->messages;
  found.actions = x->actions;
  if (auto done = write_run(what, kept, found, call.out); !done)
    return done.failure();
  findings out;
  if (auto done = add_seed(what, *x, call, out); !done)
    return done.failure();
  return out;
}

/// Explores some seeds in a child process; empty if the process died.
std::optional<findings> explore_apart(const explore_call& call, uint64_t first,
                                      size_t count) {
  std::vector<std::string> args{"simulate", call.file, "--json", "--part"};
  args.insert(args.end(), call.same.begin(), call.same.end());
  args.insert(args.end(), {"--explore", std::to_string(count), "--seed",
                           std::to_string(first)});
  if (call.how.faults)
    args.insert(args.end(), {"--faults", std::to_string(*call.how.faults)});
  findings out;
  if (!read_findings(child{args}.wait(), out))
    return std::nullopt;
  return out;
}

findings explore_chunk(const explore_call& call, uint64_t first, size_t count) {
  if (auto found = explore_apart(call, first, count))
    return std::move(*found);
  findings out; // each seed in a process of its own finds the one that crashes
  auto known = false;
  for (auto seed = first; seed < first + count; ++seed)
    if (auto found = explore_apart(call, seed, 1)) {
      out.add(*found);
    } else {
      out.violations.push_back({"P20", "the program died", seed});
      known = true;
    }
  if (!known)
    out.violations.push_back(
      {"P20",
       "the program died, with one of " + std::to_string(count)
         + " seeds from this one on, but not when these were repeated",
       first});
  return out;
}

findings explore_many(const explore_call& call, const common_options& common) {
  auto begun = steady_now();
  auto chunks = (call.count + chunk - 1) / chunk;
  std::vector<findings> parts(chunks);
  progress_bar bar{"explore", !common.json};
  std::mutex mutex; // guards the variables below, and printed lines
  std::set<std::string> reported;
  do_all(
    chunks,
    [&](size_t i) {
      parts[i] = explore_chunk(call, call.first + i * chunk,
                               std::min(chunk, call.count - i * chunk));
      // Prints the first violation of each invariant at once, because a long
      // exploration may be interrupted.
      std::lock_guard guard{mutex};
      for (auto& x : parts[i].violations)
        if (!common.json && reported.insert(x.invariant).second)
          bar.print_line(to_string(x));
    },
    [&](size_t done) {
      auto seeds = std::min(call.count, done * chunk);
      auto took = to_seconds(steady_now() - begun);
      bar.show(static_cast<double>(done) / static_cast<double>(chunks),
               std::to_string(seeds) + " seeds, "
                 + fixed(static_cast<double>(seeds) / took, 0) + "/s");
    });
  bar.done();
  findings all;
  for (auto& x : parts)
    all.add(x);
  return all;
}

} // namespace

int run_explore(const loaded_scenario& what, const explore_call& call,
                const common_options& common) {
  auto begun = steady_now();
  auto found = !call.out.empty() ? explore_one(what, call)
               : call.count <= chunk
                 ? explore_some(what, call)
                 : result<findings>{explore_many(call, common)};
  if (!found)
    return fail(common, found.failure());
  if (call.count == 1 && !common.json)
    print_faults(what, call.first, call.how);
  if (!call.part)
    check_probes(what, *found);
  return print_findings(*found, what, call, to_seconds(steady_now() - begun),
                        common);
}

} // namespace millrace
