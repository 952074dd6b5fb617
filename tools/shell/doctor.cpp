// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <set>

#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/clocks.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

/// Wall clocks that differ by more make logs of several hosts hard to read.
constexpr microseconds wall_apart = 500ms;

/// What shows only when nodes are held against each other.
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

void add_rows(table& rows, const std::string& where,
              const std::vector<finding>& xs) {
  for (auto& x : xs)
    rows.push_back({x.how == verdict::good ? "" : std::string{to_string(x.how)},
                    where, x.what, x.found});
}

} // namespace

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
  std::vector<std::pair<std::string, finding>> wrong;
  auto look = [&](const std::string& where, const std::vector<finding>& xs) {
    for (auto& x : xs)
      if (x.how != verdict::good)
        wrong.emplace_back(where, x);
  };
  for (auto& [node, x] : nodes)
    look(node, x.findings);
  look("all", between);
  auto bad = std::any_of(wrong.begin(), wrong.end(),
                         [](auto& x) { return x.second.how == verdict::bad; });
  if (in.form == output_form::json) {
    auto out = json::object();
    for (auto& [node, x] : nodes)
      out[node] = to_json(x);
    print_json(
      json{{"nodes", out}, {"between", to_json(between)}, {"failed", failed}});
    return bad || !failed.empty() ? int{exit_failed} : int{exit_ok};
  }
  table rows{{"", "NODE", "WHAT", "FOUND"}};
  for (auto& [node, x] : nodes)
    add_rows(rows, node, x.findings);
  add_rows(rows, "all", between);
  print_table(rows);
  std::cout << "\n";
  std::set<std::string> said;
  for (auto& [where, x] : wrong)
    if (said.insert(x.what + x.advice).second)
      std::cout << wrapped(x.what + ": " + x.advice, terminal_width(), 2)
                << "\n";
  if (wrong.empty())
    std::cout << "nothing to complain of\n";
  std::cout << std::flush;
  return bad || !failed.empty() ? int{exit_failed} : int{exit_ok};
}

} // namespace millrace
