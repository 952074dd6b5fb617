// SPDX-License-Identifier: Apache-2.0

/// \file
/// The command `cold-starts`: the time from the decision to start a replica to
/// its first answer, by step.

#include <algorithm>
#include <array>
#include <iostream>

#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "shell/ask.hpp"
#include "shell/tables.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

/// A step of a start, and its mark in the time line.
struct step {
  char mark;
  microseconds took;
};

bool is_ready(const replica_start& x) {
  return x.ready > 0us;
}

bool has_failed(const replica_start& x) {
  return x.how.state == replica_condition::failed;
}

bool was_stopped(const replica_start& x) {
  return x.how.state == replica_condition::draining;
}

/// The steps' durations. Time without a known step counts for the step under
/// way. The sum of the known steps may exceed the age, because nodes measure
/// them by their own clocks.
std::array<step, 4> steps_of(const replica_start& x) {
  std::array<step, 4> out{{{'.', x.order},
                           {'=', x.how.fetch},
                           {'+', x.how.load},
                           {'*', x.how.warm_up}}};
  if (is_ready(x) || has_failed(x) || was_stopped(x))
    return out;
  microseconds known{0};
  for (auto& y : out)
    known += y.took;
  // Layers from another host or a store are attached while they arrive.
  auto& from = x.how.from;
  auto is_here = from == "memory" || from == "disk";
  auto has_come = is_here || x.how.load > 0us;
  auto now = x.order == 0us ? 0u : has_come ? 2u : 1u;
  out[now].took += std::max(0us, x.ago - known);
  return out;
}

std::string line_of(const replica_start& x, size_t width) {
  double all = 0;
  auto steps = steps_of(x);
  for (auto& y : steps)
    all += to_seconds(std::max(0us, y.took));
  std::string out;
  double until = 0;
  for (auto& y : steps) {
    until += to_seconds(std::max(0us, y.took));
    auto part = all > 0 ? until / all : 0;
    out.resize(static_cast<size_t>(part * static_cast<double>(width)), y.mark);
  }
  return out;
}

std::string outcome_of(const replica_start& x) {
  if (is_ready(x))
    return format_duration(x.ready);
  return has_failed(x) ? "failed" : was_stopped(x) ? "stopped" : "not yet";
}

std::string or_dash(microseconds x) {
  return x > 0us ? format_duration(x) : "-";
}

} // namespace

table start_table(const std::vector<replica_start>& all) {
  table rows{{"REPLICA", "DEVICE", "FROM", "AGO", "READY", "ANSWERED",
              ". ORDER", "= BYTES", "+ ATTACH", "* WARM-UP", "TIME LINE"}};
  for (auto& x : all) {
    auto& how = x.how;
    rows.push_back(
      {how.what.replica, how.what.node + "/" + how.what.device,
       how.from.empty() ? "-" : how.from, format_duration(x.ago), outcome_of(x),
       how.first_answer < 0us ? "-"
                              : format_duration(x.ready + how.first_answer),
       or_dash(x.order), or_dash(steps_of(x)[1].took), or_dash(how.load),
       or_dash(how.warm_up), line_of(x, 24)});
  }
  return rows;
}

int show_starts(shell& in, const arguments& args) {
  auto list = ask_controller<start_list>(in.cluster, "placement", get_starts{});
  if (!list)
    return complain(in, list.failure().text);
  auto& all = list->starts;
  if (!args.empty())
    std::erase_if(all, [&](auto& x) { return x.how.what.model != args[0]; });
  if (in.form == output_form::json)
    return print_json(to_json(*list));
  if (all.empty()) {
    std::cout << "no replica" << (args.empty() ? "" : " of " + args[0])
              << " was started since the controller began" << std::endl;
    return exit_ok;
  }
  print_table(start_table(all));
  for (auto& x : all)
    if (has_failed(x))
      std::cout << wrapped(x.how.what.replica + ": " + x.how.reason,
                           terminal_width(), 2)
                << "\n";
  std::cout << std::flush;
  return exit_ok;
}

} // namespace millrace
