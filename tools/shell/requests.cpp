// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>

#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

/// A story, and the gateway's node that tells it.
struct told {
  std::string gateway;
  request_story x;
};

/// What gateways know, and those that said nothing.
struct memories {
  std::vector<told> stories;
  failed_nodes failed;
};

/// What all gateways know, or of one request.
result<memories> ask_gateways(operator_client& cluster,
                              const std::string& which) {
  auto nodes = linked_nodes(cluster);
  if (!nodes)
    return nodes.failure();
  std::vector<std::string> gateways;
  for (auto& m : *nodes)
    if (m.has_role("gateway"))
      gateways.push_back(m.name);
  if (gateways.empty())
    return error{ec::unavailable, "no gateway is there", {}};
  auto answers =
    ask_each<request_list>(cluster, gateways, "gateway", get_requests{which});
  memories out{{}, std::move(answers.failed)};
  for (auto& [node, list] : answers.good)
    for (auto& x : list.requests)
      out.stories.push_back({node, std::move(x)});
  return out;
}

std::string name_of(const told& x) {
  if (!x.x.trace.empty())
    return shown(x.x.trace, 64);
  return std::to_string(x.x.number);
}

std::string state_of(const request_story& x) {
  return x.open ? "open" : std::string{to_string(x.status)};
}

/// Why it was answered so, or what keeps it.
std::string why(const request_story& x) {
  if (!x.error.empty())
    return x.error;
  if (x.open && x.stays.empty())
    return "waits for a replica";
  if (x.open)
    return "with " + x.stays.back().replica + " for "
           + format_duration(x.stays.back().took);
  if (!x.vain.empty())
    return "run again: " + x.vain.back().why;
  return x.trace.empty() ? "slow" : "";
}

int list_requests(const std::vector<told>& found) {
  if (found.empty()) {
    std::cout << "no gateway has had a request yet" << std::endl;
    return exit_ok;
  }
  table rows{
    {"REQUEST", "MODEL", "STATE", "AGO", "TOTAL", "QUEUE", "EXECUTE", "WHY"}};
  for (auto& y : found) {
    auto& x = y.x;
    rows.push_back(
      {name_of(y), x.model.empty() ? "-" : x.model, state_of(x),
       format_duration(x.ago), x.open ? "-" : format_duration(x.total),
       format_duration(x.queue),
       x.replica.empty() ? "-" : format_duration(x.execute), why(x)});
  }
  print_table(rows);
  std::cout << "These are open; or the last 64 that failed or were run again;"
               " or the last 64\nthat were given a name (--trace); or were slow"
               " lately. 'explain REQUEST' tells\nmore of one."
            << std::endl;
  return exit_ok;
}

/// A part of a request's time.
struct time_part {
  std::string name;
  microseconds took;
  std::string what;
};

/// "queue  0.3 ms  ####  waiting": each as a bar, of the whole.
void print_parts(const std::vector<time_part>& parts, microseconds whole) {
  constexpr int64_t widest = 30;
  table rows{{"  its time went to", "TOOK", ""}};
  for (auto& x : parts) {
    auto n = std::clamp<int64_t>(
      widest * x.took.count() / std::max<int64_t>(1, whole.count()), 0, widest);
    rows.push_back({"    " + x.name, format_duration(x.took),
                    std::string(static_cast<size_t>(n), '#')
                      + (n > 0 && !x.what.empty() ? "  " : "") + x.what});
  }
  std::cout << table_text(rows);
}

microseconds took(const vain_attempt& x) {
  auto out = 0us;
  for (auto& y : x.stays)
    out += y.took;
  return out;
}

/// What attempts took that came to nothing.
microseconds in_vain(const request_story& x) {
  auto out = 0us;
  for (auto& y : x.vain)
    out += took(y);
  return out;
}

/// Through the parts of a model.
void print_way(const request_story& x) {
  if (x.visits.empty())
    return;
  auto before = x.queue - in_vain(x); // in the router's queue
  for (auto& y : x.visits)
    before -= y.queue + y.held;
  table rows{{"  by way of", "WAITED", "RAN", "HELD FOR THE NEXT"},
             {"    the router", format_duration(before), "-", "-"}};
  for (auto& y : x.visits)
    rows.push_back({"    " + y.replica, format_duration(y.queue),
                    format_duration(y.execute),
                    y.held == 0us ? "-" : format_duration(y.held)});
  std::cout << table_text(rows);
}

/// "12 ms (m.1.1 3 ms, m.1.2 9 ms)"
std::string took_where(const vain_attempt& x) {
  if (x.stays.size() == 1)
    return format_duration(took(x)) + " (" + x.stays[0].replica + ")";
  return format_duration(took(x)) + " ("
         + joined(
           x.stays, ", ",
           [](auto& y) { return y.replica + " " + format_duration(y.took); })
         + ")";
}

void print_attempts(const request_story& x) {
  if (x.vain.empty())
    return;
  std::cout << "  attempts       " << x.attempts << "\n";
  for (auto& y : x.vain)
    std::cout << wrapped("    in vain      " + took_where(y) + ": " + y.why,
                         terminal_width(), 17)
              << "\n";
}

/// Who computed it, or failed to.
void print_answer(const request_story& x) {
  if (x.open)
    return;
  if (x.replica.empty()) {
    std::cout << "  answered by    the gateway, without a replica's result\n";
    return;
  }
  auto computed = x.status == ec::ok || x.status == ec::deadline_exceeded;
  std::cout << (computed ? "  answered by    " : "  failed at      ")
            << x.replica;
  if (x.batch > 1)
    std::cout << ", with " << x.batch - 1 << " other(s) of its batch";
  std::cout << "\n";
}

/// Where it was, and how long.
void print_times(const request_story& x) {
  auto whole = x.open ? x.ago : x.total;
  auto rest = whole - x.queue - x.execute;
  std::vector<time_part> parts;
  if (!x.vain.empty())
    parts.push_back({"in vain", in_vain(x), "attempts that were lost"});
  parts.push_back({"queue", std::max(0us, x.queue - in_vain(x)),
                   x.replica.empty() ? "waiting for a replica"
                                     : "waiting for a replica and its device"});
  if (!x.replica.empty())
    parts.push_back({"execute", x.execute, "the model"});
  for (auto& y : x.stays) {
    rest -= y.took;
    parts.push_back({y.replica, y.took,
                     &y != &x.stays.back() ? ""
                     : x.open              ? "which has it: in its queue,"
                                             " running, or held for the next"
                                           : "which had it then"});
  }
  parts.push_back({"rest", std::max(0us, rest),
                   "messages, gateway, putting batches together"});
  print_parts(parts, whole);
}

void print_story(const told& y) {
  auto& x = y.x;
  std::cout << "request " << name_of(y);
  if (!x.trace.empty())
    std::cout << " (number " << x.number << ")";
  std::cout << " at " << y.gateway << ": " << state_of(x);
  if (x.open)
    std::cout << " for " << format_duration(x.ago);
  else
    std::cout << " after " << format_duration(x.total) << ", "
              << format_duration(x.ago) << " ago";
  std::cout << "\n";
  if (!x.error.empty())
    std::cout << wrapped("because: " + x.error, terminal_width(), 2) << "\n";
  std::cout << "  of tenant      " << x.tenant << "\n";
  if (!x.asked.empty())
    std::cout << "  asked for      " << shown(x.asked, 200) << "\n";
  if (x.model.empty()) {
    std::cout << "  it was refused before a model was chosen\n";
    return;
  }
  std::cout << "  model          " << x.model << " version " << x.version
            << "\n";
  if (x.deadline > 0us)
    std::cout << "  had            " << format_duration(x.deadline) << ", used "
              << fixed(100 * to_seconds(x.open ? x.ago : x.total)
                         / to_seconds(x.deadline),
                       1)
              << " %\n";
  print_answer(x);
  print_attempts(x);
  print_way(x);
  print_times(x);
}

} // namespace

int explain_request(shell& in, const arguments& args) {
  if (!args.empty() && args[0].empty())
    return complain(in, "expected a request's number or name, found ''",
                    exit_wrong_call);
  auto found = ask_gateways(in.cluster, args.empty() ? "" : args[0]);
  if (!found)
    return complain(in, found.failure().text);
  auto& stories = found->stories;
  if (in.form == output_form::json && (args.empty() || !stories.empty())) {
    auto out = json::array();
    for (auto& y : stories) {
      auto x = to_json(y.x);
      x["gateway"] = y.gateway;
      out.push_back(std::move(x));
    }
    return print_json(json{{"requests", out}, {"failed", found->failed}});
  }
  warn_of(in, found->failed);
  if (args.empty())
    return list_requests(stories);
  if (stories.empty())
    return complain(in, "no gateway remembers request " + shown(args[0])
                          + ": only the last 64 that failed or were run again,"
                            " the last 64 given a name (--trace), and the"
                            " slowest are; 'explain' lists them");
  for (auto& y : stories)
    print_story(y);
  std::cout << std::flush;
  return exit_ok;
}

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
      auto y = to_json(x);
      y["node"] = node;
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
