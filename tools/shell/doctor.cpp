// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iostream>
#include <set>
#include <tuple>

#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/clocks.hpp"
#include "shell/tables.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

/// A larger difference of wall clocks makes logs of several hosts hard to read.
constexpr microseconds wall_apart = 500ms;

/// Findings that need a comparison of several nodes.
std::vector<finding>
compare(const std::map<std::string, examination>& nodes,
        const std::map<std::string, clock_estimate>& clocks) {
  std::vector<finding> out;
  auto differ = [&](const char* what, auto value, std::string advice) {
    std::map<std::string, std::vector<std::string>> who;
    for (auto& [node, x] : nodes)
      who[value(x)].push_back(node);
    auto found = joined(who, "; ", [](auto& x) {
      return x.first + " on "
             + joined(x.second, ", ", [](auto& y) { return y; });
    });
    if (who.size() > 1)
      out.push_back({what, verdict::notice, found, std::move(advice)});
    else
      out.push_back({what, verdict::good, "the same on all", {}});
  };
  differ(
    "versions", [](auto& x) { return x.version; },
    "bring the older up to date: drain a node, install, start it");
  differ(
    "libraries",
    [](auto& x) {
      for (auto& f : x.findings)
        if (f.what == "libraries")
          return f.found;
      return std::string{"unknown"};
    },
    "nodes with other roles load others; else install the same packages");
  microseconds least = microseconds::max(), most = microseconds::min();
  for (auto& [node, x] : clocks) {
    least = std::min(least, x.wall - x.within);
    most = std::max(most, x.wall + x.within);
  }
  if (!clocks.empty())
    out.push_back({"wall clocks",
                   most - least > wall_apart ? verdict::notice : verdict::good,
                   "within " + format_duration(most - least),
                   most - least > wall_apart
                     ? "run an NTP client on each host (deadlines do not depend"
                       " on it)"
                     : ""});
  return out;
}

/// A finding that is not good, and the nodes with that finding.
struct trouble_found {
  finding x;
  std::vector<std::string> nodes;
};

/// Findings that are not good, bad ones first. Equal findings of several nodes
/// are merged.
std::vector<trouble_found>
not_good(const std::map<std::string, examination>& nodes,
         const std::vector<finding>& between) {
  std::vector<trouble_found> out;
  auto add = [&](const std::string& node, const std::vector<finding>& xs) {
    for (auto& x : xs) {
      if (x.how == verdict::good)
        continue;
      auto same = std::find_if(out.begin(), out.end(), [&](auto& y) {
        return std::tie(y.x.what, y.x.how, y.x.found, y.x.advice)
               == std::tie(x.what, x.how, x.found, x.advice);
      });
      if (same == out.end())
        same = out.insert(out.end(), {x, {}});
      same->nodes.push_back(node);
    }
  };
  for (auto& [node, x] : nodes)
    add(node, x.findings);
  add("between nodes", between);
  std::stable_partition(out.begin(), out.end(),
                        [](auto& y) { return y.x.how == verdict::bad; });
  return out;
}

/// "good on 3 nodes: clock, disk, ...": the checks without any other verdict.
std::string good_text(const std::map<std::string, examination>& nodes,
                      const std::vector<finding>& between) {
  std::set<std::string> names, others;
  auto add = [&](const std::vector<finding>& xs) {
    for (auto& x : xs)
      (x.how == verdict::good ? names : others).insert(x.what);
  };
  for (auto& [node, x] : nodes)
    add(x.findings);
  add(between);
  for (auto& name : others) // good on some nodes, not on all
    names.erase(name);
  return "good on " + counted(nodes.size(), "node") + ": "
         + (names.empty() ? "nothing" : joined(names, ", ", std::identity{}));
}

} // namespace

std::string doctor_text(const std::map<std::string, examination>& nodes,
                        const std::vector<finding>& between, size_t width) {
  std::string out;
  for (auto& [x, where] : not_good(nodes, between)) {
    out += wrapped(std::string{to_string(x.how)} + ": "
                     + joined(where, ", ", std::identity{}) + ": " + x.what
                     + ": " + x.found,
                   width, 2)
           + "\n";
    if (!x.advice.empty())
      out += "  " + wrapped("to do: " + x.advice, width > 2 ? width - 2 : 0, 4)
             + "\n";
  }
  return out + wrapped(good_text(nodes, between), width, 2) + "\n";
}

int examine_cluster(shell& in, const arguments& args) {
  auto names = node_names(in.cluster, args);
  if (!names)
    return complain(in, names.failure().text);
  auto [nodes, failed, forbidden] =
    ask_each<examination>(in.cluster, *names, "inspector", examine{});
  warn_of(in, failed);
  if (nodes.empty())
    return complain(in, "no node answered");
  auto clocks = estimate_clocks(in.cluster, *names);
  auto between = compare(nodes, clocks);
  auto wrong = not_good(nodes, between);
  auto bad = std::any_of(wrong.begin(), wrong.end(),
                         [](auto& x) { return x.x.how == verdict::bad; });
  if (in.form == output_form::json) {
    auto out = json::object();
    for (auto& [node, x] : nodes)
      out[node] = to_json(x);
    print_json(
      json{{"nodes", out}, {"between", to_json(between)}, {"failed", failed}});
    return bad || !failed.empty() ? int{exit_failed} : int{exit_ok};
  }
  std::cout << doctor_text(nodes, between, terminal_width()) << std::flush;
  return bad || !failed.empty() ? int{exit_failed} : int{exit_ok};
}

} // namespace millrace
