// SPDX-License-Identifier: Apache-2.0

/// \file
/// The command `events`: why nodes, replicas and executors ended.

#include <algorithm>
#include <iostream>

#include "millrace/event_json.hpp"
#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/views.hpp"

namespace millrace {

int show_events(shell& in, const arguments& args) {
  // A number alone is a count, not a node.
  auto alone = args.size() == 1 && number_in<uint64_t>(args[0]).has_value();
  auto names = node_names(in.cluster, alone ? arguments{} : args);
  if (!names)
    return complain(in, names.failure().text);
  get_events wanted;
  if (alone || args.size() > 1) {
    auto n = number_in<uint64_t>(args.back());
    if (!n)
      return complain(in,
                      "expected a number of events, found " + shown(args[1]),
                      exit_wrong_call);
    wanted.last = *n;
  }
  struct line {
    std::string node;
    kept_event x;
  };
  std::vector<line> lines;
  auto answers = ask_each<event_list>(in.cluster, *names, "inspector", wanted);
  for (auto& [node, list] : answers.good)
    for (auto& x : list.events)
      lines.push_back({node, x});
  std::stable_sort(lines.begin(), lines.end(),
                   [](auto& x, auto& y) { return x.x.when < y.x.when; });
  if (lines.size() > wanted.last)
    lines.erase(lines.begin(),
                lines.end() - static_cast<std::ptrdiff_t>(wanted.last));
  if (in.form == output_form::json) {
    auto out = json::array();
    for (auto& [node, x] : lines) {
      json y{{"node", node}};
      y.update(event_json(x));
      out.push_back(std::move(y));
    }
    print_json(json{{"events", out}, {"failed", answers.failed}});
    return answers.good.empty() ? int{exit_failed} : int{exit_ok};
  }
  warn_of(in, answers.failed);
  if (answers.good.empty())
    return complain(in, "no node answered");
  table rows{{"WHEN", "NODE", "LEVEL", "EVENT"}};
  for (auto& [node, x] : lines)
    rows.push_back({x.when, node, std::string{to_string(x.level)}, x.text});
  print_table(rows);
  return exit_ok;
}

} // namespace millrace
