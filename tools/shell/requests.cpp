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

int list_requests(const std::vector<told>& found) {
  if (found.empty()) {
    std::cout << "no gateway has had a request yet" << std::endl;
    return exit_ok;
  }
  table rows{
    {"REQUEST", "MODEL", "STATE", "AGO", "TOTAL", "QUEUE", "EXECUTE", "WHY"}};
  for (auto& y : found) {
    auto& x = y.x;
    rows.push_back({name_of(y), x.model.empty() ? "-" : x.model, state_of(x),
                    format_duration(x.ago),
                    x.open ? "-" : format_duration(x.total),
                    x.open ? "-" : format_duration(x.queue),
                    x.open ? "-" : format_duration(x.execute), x.error});
  }
  print_table(rows);
  std::cout << "These are open, failed, slow, or were given a name (--trace);"
               "\n'explain REQUEST' tells more of one."
            << std::endl;
  return exit_ok;
}

/// "queue  0.3 ms  ####": a part of the whole as a bar.
void print_part(const char* name, microseconds part, microseconds whole,
                const char* what) {
  constexpr int64_t widest = 30;
  auto n = widest * part.count() / std::max<int64_t>(1, whole.count());
  auto time = format_duration(part);
  std::cout << "    " << name << std::string(10 - std::string{name}.size(), ' ')
            << time << std::string(12 - std::min<size_t>(11, time.size()), ' ')
            << std::string(
                 static_cast<size_t>(std::clamp<int64_t>(n, 0, widest)), '#')
            << (n > 0 ? "  " : "") << what << "\n";
}

/// What attempts took that came to nothing.
microseconds in_vain(const request_story& x) {
  auto out = 0us;
  for (auto& y : x.vain)
    out += y.took;
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

void print_answer(const request_story& x) {
  if (x.replica.empty()) {
    std::cout << "  answered by    the gateway, without a replica's result\n";
  } else {
    std::cout << "  answered by    " << x.replica;
    if (x.batch > 1)
      std::cout << ", with " << x.batch - 1 << " other(s) of its batch";
    std::cout << "\n";
  }
  if (x.attempts > 1)
    std::cout << "  attempts       " << x.attempts
              << ": a replica was lost, or failed, with it\n";
  for (auto& y : x.vain)
    std::cout << "    in vain      " << format_duration(y.took) << " with "
              << y.replica << "\n";
  if (x.replica.empty())
    return;
  print_way(x);
  std::cout << "  its time went to\n";
  if (!x.vain.empty())
    print_part("in vain", in_vain(x), x.total, "attempts that were lost");
  print_part("queue", std::max(0us, x.queue - in_vain(x)), x.total,
             "waiting for a replica and its device");
  print_part("execute", x.execute, x.total, "the model");
  print_part("rest", std::max(0us, x.total - x.queue - x.execute), x.total,
             "messages, gateway, putting batches together");
}

void print_story(const told& y) {
  auto& x = y.x;
  std::cout << "request " << name_of(y);
  if (!x.trace.empty())
    std::cout << " (number " << x.number << ")";
  std::cout << " at " << y.gateway << ": " << state_of(x);
  if (x.open)
    std::cout << ", waiting for " << format_duration(x.ago);
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
  if (!x.open)
    print_answer(x);
}

} // namespace

int explain_request(shell& in, const arguments& args) {
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
                          + ": only the last that failed, the slowest, and"
                            " those given a name (--trace) are; 'explain'"
                            " lists them");
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
