// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "millrace/interrupt.hpp"
#include "millrace/progress.hpp"
#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/clocks.hpp"
#include "shell/views.hpp"
#include "shell/words.hpp"
#include "trace/trace_file.hpp"

namespace millrace {

namespace {

constexpr microseconds longest = 60s;

/// A span with its times converted to the shell's clock.
struct placed {
  span x;
  microseconds from{0}, to{0};
  size_t pid = 0, tid = 0;
};

struct recording_of {
  std::vector<std::string> nodes; ///< nodes that recorded spans
  std::vector<placed> spans;      ///< sorted by begin
  uint64_t lost = 0;
  failed_nodes failed; ///< nodes with missing spans
};

/// Reads the spans that a node recorded.
void fetch(operator_client& cluster, const clock_estimate& clock,
           const std::string& node, size_t pid, recording_of& out) {
  for (uint64_t first = 0;;) {
    auto x = cluster.ask<span_list>(node + "/inspector", get_spans{first});
    if (!x) {
      out.failed[node] = "its spans are missing: " + x.failure().text;
      return;
    }
    for (auto& y : x->spans) {
      auto from = y.from + clock.monotonic;
      auto to = from + y.length;
      out.spans.push_back({std::move(y), from, to, pid, 0});
    }
    first += x->spans.size();
    if (x->spans.empty() || first >= x->kept) {
      out.lost += x->lost;
      return;
    }
  }
}

/// Assigns tracks to each actor of each node: several where its spans overlap.
void lay_out(recording_of& of, trace_file& out) {
  struct tracks {
    trace_rows rows;
    size_t first = 0;
  };
  using actor = std::pair<size_t, std::string>;
  std::map<actor, tracks> all;
  auto tracks_of = [&](const placed& x) -> tracks& {
    return all[actor{x.pid, x.x.track + (x.x.name == "waits" ? " queue" : "")}];
  };
  for (auto& x : of.spans)
    x.tid = tracks_of(x).rows.take(x.from, x.to);
  size_t n = 1;
  for (auto& [key, x] : all) {
    x.first = n;
    for (size_t i = 0; i < x.rows.used(); ++i)
      out.name_thread(key.first, n++, key.second);
  }
  for (auto& x : of.spans)
    x.tid += tracks_of(x).first;
}

/// Draws arrows for each request: gateway, then replica, then device.
void draw_arrows(const recording_of& of, trace_file& out) {
  std::map<std::pair<size_t, uint64_t>, const placed*> requests;
  std::map<uint64_t, const placed*> replicas, runs;
  for (auto& x : of.spans)
    if (x.x.track == "gateway")
      requests[{x.pid, x.x.request}] = &x;
    else if (x.x.track.starts_with("replica/"))
      replicas[x.x.batch] = &x;
    else if (x.x.name == "runs")
      runs[x.x.batch] = &x;
  uint64_t id = 0;
  for (auto& x : of.spans) {
    if (!x.x.track.starts_with("router/") || x.x.request == 0)
      continue;
    auto request = requests.find({x.pid, x.x.request});
    auto replica = replicas.find(x.x.batch);
    auto run = runs.find(x.x.batch);
    if (request == requests.end() || replica == replicas.end()
        || run == runs.end())
      continue;
    ++id;
    using enum trace_file::arrow;
    auto draw = [&](trace_file::arrow what, const placed& at) {
      out.flow(what, at.pid, at.tid, id, at.from);
    };
    draw(begins, *request->second);
    draw(passes, *replica->second);
    draw(ends, *run->second);
  }
}

result<size_t> write(recording_of& of, const std::string& path) {
  std::ofstream file{path};
  size_t requests = 0;
  {
    trace_file out{file};
    for (size_t i = 0; i < of.nodes.size(); ++i)
      out.name_process(i + 1, of.nodes[i]);
    lay_out(of, out);
    auto first = of.spans.empty() ? 0us : of.spans.front().from;
    for (auto& x : of.spans) {
      x.from -= first;
      x.to -= first;
      requests += x.x.track == "gateway";
      // A string, because numbers in JavaScript have only 53 bits.
      auto args = trace_member("request", std::to_string(x.x.request)) + ","
                  + trace_member("batch", std::to_string(x.x.batch));
      if (!x.x.note.empty())
        args += "," + trace_member("note", x.x.note);
      out.slice(x.pid, x.tid, x.x.name, x.from, x.to, args);
    }
    draw_arrows(of, out);
  }
  file.close();
  if (!file)
    return error{ec::unavailable,
                 path + ": cannot be written: " + std::strerror(errno),
                 {}};
  return requests;
}

/// Starts recording on all nodes for `time`. Returns the nodes that record.
result<std::vector<std::string>> record(shell& in, microseconds time,
                                        failed_nodes& failed) {
  auto names = node_names(in.cluster);
  if (!names)
    return names;
  record_spans order;
  order.longest = time;
  auto answers = order_each(in.cluster, *names, "inspector", order);
  failed = std::move(answers.failed);
  if (answers.good.empty())
    return error{ec::unavailable, "no node records", {}};
  std::vector<std::string> out;
  for (auto& [name, x] : answers.good)
    out.push_back(name);
  interruptible ctrl_c; // ends the recording early; the file is written
  progress_bar bar{"recording", in.form == output_form::text};
  auto begin = steady_now();
  for (;;) {
    auto passed = to_us(steady_now() - begin);
    if (passed >= time || ctrl_c.happened())
      break;
    bar.show(to_seconds(passed) / to_seconds(time));
    in.cluster.idle(std::min<microseconds>(100ms, time - passed));
  }
  bar.done();
  return out;
}

} // namespace

int record_trace(shell& in, const arguments& args) {
  microseconds time = 1s;
  if (!args.empty()) {
    auto x = read_seconds(args[0]);
    if (!x || *x <= 0us || *x > longest)
      return complain(in,
                      "expected a time up to " + format_duration(longest)
                        + ", like 2s, found " + shown(args[0]),
                      exit_wrong_call);
    time = *x;
  }
  auto path = args.size() > 1 ? args[1] : std::string{"trace.json"};
  recording_of all;
  auto nodes = record(in, time, all.failed);
  if (!nodes) {
    return complain(in, nodes.failure().text + ": "
                          + joined(all.failed, "; ", [](auto& x) {
                              return x.first + ": " + x.second;
                            }));
  }
  all.nodes = *nodes;
  auto clocks = estimate_clocks(in.cluster, all.nodes);
  for (size_t i = 0; i < all.nodes.size(); ++i)
    if (auto clock = clocks.find(all.nodes[i]); clock != clocks.end())
      fetch(in.cluster, clock->second, all.nodes[i], i + 1, all);
    else
      all.failed[all.nodes[i]] = "its spans are missing: its clock is unknown";
  warn_of(in, all.failed);
  std::stable_sort(all.spans.begin(), all.spans.end(),
                   [](auto& x, auto& y) { return x.from < y.from; });
  auto requests = write(all, path);
  if (!requests)
    return complain(in, requests.failure().text);
  if (in.form == output_form::json) {
    auto offsets = json::object();
    for (auto& [node, x] : clocks)
      offsets[node] = json{{"offset_us", x.monotonic.count()},
                           {"within_us", x.within.count()}};
    return print_json(json{{"file", path},
                           {"requests", *requests},
                           {"spans", all.spans.size()},
                           {"lost", all.lost},
                           {"failed", all.failed},
                           {"clocks", offsets}});
  }
  std::cout << path << ": " << *requests << " requests, " << all.spans.size()
            << " spans of " << all.nodes.size() << " nodes";
  if (all.lost > 0)
    std::cout << "; buffers were full: " << all.lost << " spans are missing";
  std::cout << "\n";
  microseconds within{0};
  for (auto& [node, x] : clocks)
    within = std::max(within, x.within);
  std::cout << "times of different nodes fit within " << format_duration(within)
            << "; open it at https://ui.perfetto.dev" << std::endl;
  if (*requests == 0)
    std::cout << "(no request was answered meanwhile: is there load?)"
              << std::endl;
  return exit_ok;
}

} // namespace millrace
