// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>

#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/tables.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

/// Requests that gateways remember, and the gateways without an answer.
struct memories {
  std::vector<told_story> stories;
  failed_nodes failed;
};

/// Requests all gateways' memories: all requests, or one by number or name.
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

std::string name_of(const told_story& x) {
  if (!x.x.trace.empty())
    return shown(x.x.trace, 64);
  return std::to_string(x.x.number);
}

std::string state_of(const request_story& x) {
  return x.open ? "open" : std::string{to_string(x.status)};
}

/// Why the request has this result, or what an open request waits for.
std::string why(const request_story& x) {
  if (!x.error.empty())
    return x.error;
  if (x.open && x.stays.empty())
    return "waits for a replica";
  if (x.open)
    return "with " + x.stays.back().replica + " for "
           + format_duration(x.stays.back().took);
  if (!x.vain.empty())
    return "retried: " + x.vain.back().why;
  return x.trace.empty() ? "slow" : "";
}

/// A part of the time of a request.
struct time_part {
  std::string name;
  microseconds took;
  std::string what;
};

/// "queue  0.3 ms  ####  waiting": each part with a bar in proportion to
/// `whole`.
std::string parts_text(const std::vector<time_part>& parts, microseconds whole,
                       size_t width) {
  constexpr int64_t widest = 20;
  table rows{{"  time spent in", "TOOK", "", ""}};
  for (auto& x : parts) {
    auto n = std::clamp<int64_t>(
      widest * x.took.count() / std::max<int64_t>(1, whole.count()), 0, widest);
    rows.push_back({"    " + x.name, format_duration(x.took),
                    std::string(static_cast<size_t>(n), '#'), x.what});
  }
  return table_text(rows, width, "      ");
}

microseconds took(const vain_attempt& x) {
  auto out = 0us;
  for (auto& y : x.stays)
    out += y.took;
  return out;
}

/// Time of the attempts that failed.
microseconds in_vain(const request_story& x) {
  auto out = 0us;
  for (auto& y : x.vain)
    out += took(y);
  return out;
}

/// The request's way through the stages of a model.
std::string way_text(const request_story& x, size_t width) {
  if (x.visits.empty())
    return {};
  auto before = x.queue - in_vain(x); // in the router's queue
  for (auto& y : x.visits)
    before -= y.queue + y.held;
  table rows{{"  path", "WAITED", "RAN", "HELD FOR THE NEXT"},
             {"    the router", format_duration(before), "-", "-"}};
  for (auto& y : x.visits)
    rows.push_back({"    " + y.replica, format_duration(y.queue),
                    format_duration(y.execute),
                    y.held == 0us ? "-" : format_duration(y.held)});
  return table_text(rows, width, "      ");
}

/// "12 ms (m.1.1 3 ms, m.1.2 9 ms)": the time of an attempt, by replica.
std::string took_where(const vain_attempt& x) {
  if (x.stays.size() == 1)
    return format_duration(took(x)) + " (" + x.stays[0].replica + ")";
  return format_duration(took(x)) + " ("
         + joined(
           x.stays, ", ",
           [](auto& y) { return y.replica + " " + format_duration(y.took); })
         + ")";
}

/// "  model          digits": a name, and a text in a second column.
std::string named_line(const std::string& name, const std::string& text,
                       size_t width) {
  constexpr size_t column = 17;
  auto head = "  " + name;
  head.resize(column, ' ');
  // Only the text is wrapped: the blanks of the head stay.
  auto room = width > column ? width - column : 0;
  std::string out;
  auto lines = wrapped(text, room, 0);
  for (auto line : split(lines, '\n'))
    out += (out.empty() ? head : std::string(column, ' ')) + std::string{line}
           + "\n";
  return out;
}

std::string attempts_text(const request_story& x, size_t width) {
  if (x.vain.empty())
    return {};
  auto out = named_line("attempts", std::to_string(x.attempts), width);
  for (auto& y : x.vain)
    out += named_line("  in vain", took_where(y) + ": " + y.why, width);
  return out;
}

/// The replica that computed the answer or failed, and the size of its batch.
std::string answer_text(const request_story& x, size_t width) {
  if (x.open)
    return {};
  if (x.replica.empty())
    return named_line("answered by", "the gateway, without a replica's result",
                      width);
  auto computed = x.status == ec::ok || x.status == ec::deadline_exceeded;
  return named_line(computed ? "answered by" : "failed at",
                    x.replica
                      + (x.batch > 1 ? ", with " + std::to_string(x.batch - 1)
                                         + " other(s) of its batch"
                                     : ""),
                    width);
}

/// The parts of the request's time.
std::string times_text(const request_story& x, size_t width) {
  auto whole = x.open ? x.ago : x.total;
  auto rest = whole - x.queue - x.execute;
  std::vector<time_part> parts;
  if (!x.vain.empty())
    parts.push_back({"in vain", in_vain(x), "failed attempts"});
  parts.push_back({"queue", std::max(0us, x.queue - in_vain(x)),
                   x.replica.empty() ? "waiting for a replica"
                                     : "waiting for a replica and its device"});
  if (!x.replica.empty())
    parts.push_back({"execute", x.execute, "the model"});
  for (auto& y : x.stays) {
    rest -= y.took;
    parts.push_back({y.replica, y.took,
                     &y != &x.stays.back() ? ""
                     : x.open              ? "now: in its queue, running,"
                                             " or held for the next stage"
                                           : "had the request at its end"});
  }
  parts.push_back({"rest", std::max(0us, rest),
                   "messages, gateway, putting batches together"});
  return parts_text(parts, whole, width);
}

} // namespace

table story_table(const std::vector<told_story>& found) {
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
  return rows;
}

std::string story_text(const told_story& story, size_t width) {
  auto& x = story.x;
  auto head = "request " + name_of(story);
  if (!x.trace.empty())
    head += " (number " + std::to_string(x.number) + ")";
  head += " at " + story.gateway + ": " + state_of(x);
  head += x.open ? " for " + format_duration(x.ago)
                 : " after " + format_duration(x.total) + ", "
                     + format_duration(x.ago) + " ago";
  auto out = wrapped(head, width, 2) + "\n";
  if (!x.error.empty())
    out += wrapped("because: " + x.error, width, 2) + "\n";
  out += named_line("of tenant", x.tenant, width);
  if (!x.asked.empty())
    out += named_line("asked for", shown(x.asked, 200), width);
  if (x.model.empty())
    return out + "  it was refused before a model was chosen\n";
  out += named_line("model", x.model + " version " + std::to_string(x.version),
                    width);
  if (x.deadline > 0us)
    out += named_line("had",
                      format_duration(x.deadline) + ", used "
                        + fixed(100 * to_seconds(x.open ? x.ago : x.total)
                                  / to_seconds(x.deadline),
                                1)
                        + " %",
                      width);
  return out + answer_text(x, width) + attempts_text(x, width)
         + way_text(x, width) + times_text(x, width);
}

namespace {

int list_requests(const std::vector<told_story>& found) {
  if (found.empty()) {
    std::cout << "no gateway has had a request yet" << std::endl;
    return exit_ok;
  }
  print_table(story_table(found));
  std::cout
    << "Open requests, the last 64 that failed or were retried, the last 64"
       " with a name\n(--trace), and recently slow ones."
       " 'explain REQUEST' shows the details."
    << std::endl;
  return exit_ok;
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
                          + ": gateways remember only the last 64 that failed"
                            " or were retried, the last 64 with a name"
                            " (--trace), and the slowest; 'explain' lists"
                            " them");
  for (auto& y : stories)
    std::cout << story_text(y, terminal_width());
  std::cout << std::flush;
  return exit_ok;
}

} // namespace millrace
