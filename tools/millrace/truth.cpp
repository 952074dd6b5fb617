// SPDX-License-Identifier: Apache-2.0
#include "millrace/truth.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "millrace/real_run.hpp"
#include "millrace/run_files.hpp"
#include "simulator/gnuplot.hpp"
#include "simulator/samples.hpp"
#include "simulator/simulation.hpp"

namespace millrace {

namespace {

using namespace simulator;

/// A part of the requests' time, real and simulated, in milliseconds.
struct compared {
  std::string name;
  double real_p50 = 0, simulated_p50 = 0;
  double real_p90 = 0, simulated_p90 = 0;
  double real_p99 = 0, simulated_p99 = 0;
  /// The largest difference between the distributions, as in the
  /// Kolmogorov-Smirnov statistic, except that times closer than `close` count
  /// as equal.
  double distance = 0;
  MILLRACE_FIELDS(compared, name, real_p50, simulated_p50, real_p90,
                  simulated_p90, real_p99, simulated_p99, distance)
};

struct truth {
  std::string scenario;
  uint64_t seed = 0;
  uint64_t requests = 0;
  std::map<std::string, uint64_t> real_statuses, simulated_statuses;
  std::vector<compared> times;
  std::map<std::string, std::pair<uint64_t, uint64_t>> decisions;
  /// Changes of numbers of replicas, in order.
  std::vector<scaled_event> real_scaled, simulated_scaled;
};

/// Whether the numbers of replicas changed alike, at whatever times.
bool scaled_alike(const truth& x) {
  return std::equal(x.real_scaled.begin(), x.real_scaled.end(),
                    x.simulated_scaled.begin(), x.simulated_scaled.end(),
                    [](auto& a, auto& b) { return a.change == b.change; });
}

/// Milliseconds that count as equal: within the time to wake a thread.
constexpr double close = 0.25;

using rows = std::vector<request_row>;
using part_of_time = double (*)(const request_row&);

double ms(microseconds x) {
  return 1e3 * to_seconds(x);
}

samples of_answered(const rows& xs, part_of_time f) {
  samples out;
  for (auto& x : xs)
    if (x.status == ec::ok)
      out.add(f(x));
  return out;
}

double distance(samples& a, samples& b) {
  double out = 0;
  for (auto& [one, other] : {std::pair{&a, &b}, std::pair{&b, &a}})
    for (auto x : one->sorted())
      out = std::max(out, one->part_up_to(x) - other->part_up_to(x + close));
  return out;
}

compared compare(std::string name, const rows& real, const rows& simulated,
                 part_of_time f) {
  auto a = of_answered(real, f), b = of_answered(simulated, f);
  return {std::move(name), a.quantile(.5),  b.quantile(.5),  a.quantile(.9),
          b.quantile(.9),  a.quantile(.99), b.quantile(.99), distance(a, b)};
}

/// The log events that are compared as decisions.
constexpr std::array decisions{"registry.changed",    "placement.deploy",
                               "placement.evict",     "replica.ready",
                               "replica.failed",      "router.replica_ready",
                               "router.replica_gone", "router.replica_lost",
                               "supervisor.obeys",    "supervisor.child_down"};

truth hold_against(const loaded_scenario& what, uint64_t seed,
                   const real_record& real, const record& simulated) {
  truth out;
  out.scenario = what.spec.name;
  out.seed = seed;
  out.requests = real.requests.size();
  for (auto& x : real.requests)
    ++out.real_statuses[outcome_of(x)];
  for (auto& x : simulated.requests)
    ++out.simulated_statuses[outcome_of(x)];
  auto add = [&](const char* name, part_of_time f) {
    out.times.push_back(compare(name, real.requests, simulated.requests, f));
  };
  add("latency", [](const request_row& x) { return ms(x.ended - x.sent); });
  add("queue", [](const request_row& x) { return ms(x.queue); });
  add("execute", [](const request_row& x) { return ms(x.execute); });
  add("rest", [](const request_row& x) {
    return ms(x.ended - x.sent - x.queue - x.execute);
  });
  out.real_scaled = real.scaled;
  std::map<std::string, uint64_t> simulated_events;
  for (auto& x : simulated.events) {
    auto name = x.what.substr(0, x.what.find(' '));
    ++simulated_events[name];
    if (name == "autoscaler.scaled")
      out.simulated_scaled.push_back(scaled_at(to_seconds(x.at), x.what));
  }
  for (auto* name : decisions) {
    auto count = [&](const std::map<std::string, uint64_t>& xs) {
      auto i = xs.find(name);
      return i == xs.end() ? 0 : i->second;
    };
    std::pair both{count(real.events), count(simulated_events)};
    if (both.first + both.second > 0)
      out.decisions[name] = both;
  }
  return out;
}

std::vector<std::vector<std::string>> time_table(const truth& x) {
  std::vector<std::vector<std::string>> out{
    {"ms", "p50 real", "simulated", "p90 real", "simulated", "p99 real",
     "simulated", "distance"}};
  for (auto& t : x.times)
    out.push_back({t.name, fixed(t.real_p50, 3), fixed(t.simulated_p50, 3),
                   fixed(t.real_p90, 3), fixed(t.simulated_p90, 3),
                   fixed(t.real_p99, 3), fixed(t.simulated_p99, 3),
                   fixed(t.distance, 3)});
  return out;
}

std::vector<std::vector<std::string>> decision_table(const truth& x) {
  std::vector<std::vector<std::string>> out{{"decision", "real", "simulated"}};
  for (auto& [name, n] : x.decisions)
    out.push_back({name, std::to_string(n.first), std::to_string(n.second)});
  return out;
}

/// One row per change; before the workload both begin at their own time.
std::vector<std::vector<std::string>> scaling_table(const truth& x) {
  std::vector<std::vector<std::string>> out{
    {"replicas", "real, s", "simulated", "s"}};
  auto n = std::max(x.real_scaled.size(), x.simulated_scaled.size());
  auto cell = [](const std::vector<scaled_event>& xs, size_t i, bool time) {
    if (i >= xs.size())
      return std::string{"-"};
    return time ? fixed(xs[i].at, 2) : xs[i].change;
  };
  for (size_t i = 0; i < n; ++i)
    out.push_back({cell(x.real_scaled, i, false), cell(x.real_scaled, i, true),
                   cell(x.simulated_scaled, i, false),
                   cell(x.simulated_scaled, i, true)});
  return out;
}

std::string markdown(const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    out += "|";
    for (auto& cell : rows[i])
      out += " " + cell + " |";
    out += "\n";
    if (i > 0)
      continue;
    out += "|";
    for (size_t k = 0; k < rows[i].size(); ++k)
      out += k == 0 ? "---|" : "---:|";
    out += "\n";
  }
  return out;
}

/// Explains the differences, part by part, and suggests settings.
std::string explain(const loaded_scenario& what, const truth& x) {
  auto& rest = x.times[3];
  auto& execute = x.times[2];
  auto& queue = x.times[1];
  auto more = rest.real_p50 - rest.simulated_p50;
  std::string out =
    "**Rest** is the time of a request outside of queues and"
    " devices: the client, a round trip over TCP between client"
    " and gateway, one between gateway and worker, and the"
    " wake-ups of threads. The simulated network has its"
    " latencies and "
    + format_duration(what.spec.network.per_message)
    + " per message, and no other delays: the median differs by "
    + fixed(more, 3) + " ms.";
  if (more > 0.02) {
    // Two links on each of the four ways.
    auto each = microseconds{static_cast<int64_t>(1e3 * more / 8)};
    auto& net = what.spec.network;
    out += " With `network.host.latency: "
           + std::to_string((net.host.latency + each).count())
           + "us` and `network.clients.latency: "
           + std::to_string((net.clients.latency + each).count())
           + "us` the medians would agree.";
  }
  out += "\n\n**Execute** is the run time on the emulated device. The device is"
         " the same, but a real timer fires late ("
         + fixed(execute.real_p50 - execute.simulated_p50, 3)
         + " ms at the median, "
         + fixed(execute.real_p99 - execute.simulated_p99, 3)
         + " ms at p99), and a virtual timer does not.\n\n**Queue** is the time"
           " that a request waits for a replica. It depends on the two times"
           " above (a slower device is busier) and on the random order of"
           " requests that arrive within microseconds."
         + (queue.distance < 0.1
              ? " The distributions agree within "
                  + fixed(100 * queue.distance, 1) + " %.\n"
              : " The distributions differ by up to "
                  + fixed(100 * queue.distance, 1)
                  + " %: the real machine was busy with other work, or the"
                    " load is near the capacity of the devices, where small"
                    " differences cause long queues.\n");
  out += "\n**Decisions** are counted over all nodes' logs; real ones from the"
         " start of the processes to their end. Both clusters decide with the"
         " same code. Counts differ if the real cluster is shut down at the end"
         " of the run, or its nodes started in another order.\n";
  return out;
}

result<void> write_page(const loaded_scenario& what, const truth& x,
                        const real_record& real, const record& simulated,
                        const std::string& directory) {
  auto path = directory + "/truth.md";
  std::ofstream out{path};
  out << "# " << x.scenario << ": real and simulated\n\nThe same " << x.requests
      << " requests (seed " << x.seed << ", "
      << format_duration(what.spec.length) << ") were sent to "
      << what.cluster.nodes.size()
      << " real processes on this host, with emulated devices and ZeroMQ on"
         " loopback, and to the same actors on the virtual clock.\n\nReal"
         " answers: "
      << listed(x.real_statuses)
      << ". Simulated: " << listed(x.simulated_statuses) << ".\n\n## Times\n\n"
      << markdown(time_table(x))
      << "\nDistance is the largest difference between the two"
         " distributions, where times closer than "
      << fixed(close, 2)
      << " ms count as equal.\n\n"
         "![Latency, real and simulated](truth.svg)\n\n## Decisions\n\n"
      << markdown(decision_table(x)) << "\n## Numbers of replicas\n\n"
      << markdown(scaling_table(x)) << "\nThe changes are "
      << (scaled_alike(x) ? "the same" : "not the same")
      << ", in their order.\n\n## Why they differ\n\n"
      << explain(what, x);
  out.close();
  if (!out)
    return error{ec::unavailable, path + ": cannot be written", {}};
  plot picture{"truth.svg", "latency", "ms", "part of the requests"};
  picture.set("yrange [0:1]");
  picture.set("logscale x");
  auto draw = [&](const char* name, const rows& xs) {
    auto took = of_answered(
      xs, [](const request_row& r) { return ms(r.ended - r.sent); });
    picture.distribution(name, took.sorted());
  };
  draw("real", real.requests);
  draw("simulated", simulated.requests);
  warn_of(run_gnuplot(directory, "truth.gp", picture.text()));
  return {};
}

int print_truth(const truth& x, const std::string& directory,
                const common_options& common) {
  if (common.json) {
    auto counts = json::object();
    for (auto& [name, n] : x.decisions)
      counts[name] = {{"real", n.first}, {"simulated", n.second}};
    auto scaled = [](const std::vector<scaled_event>& xs) {
      auto out = json::array();
      for (auto& y : xs)
        out.push_back({{"at", y.at}, {"change", y.change}});
      return out;
    };
    std::cout << json_text(json{{"scenario", x.scenario},
                                {"seed", x.seed},
                                {"requests", x.requests},
                                {"real", x.real_statuses},
                                {"simulated", x.simulated_statuses},
                                {"times", to_json(x.times)},
                                {"decisions", counts},
                                {"scaled",
                                 {{"real", scaled(x.real_scaled)},
                                  {"simulated", scaled(x.simulated_scaled)},
                                  {"alike", scaled_alike(x)}}}})
              << std::endl;
    return exit_ok;
  }
  print_table(time_table(x));
  std::cout << "\n";
  print_table(decision_table(x));
  if (!x.real_scaled.empty() || !x.simulated_scaled.empty()) {
    std::cout << "\n";
    print_table(scaling_table(x));
  }
  std::cout << "\nthe page is " << directory << "/truth.md" << std::endl;
  return exit_ok;
}

} // namespace

int run_truth(const loaded_scenario& what, uint64_t seed,
              const std::string& directory, const common_options& common) {
  simulation::options how;
  how.seed = seed;
  auto run = simulation::prepare(what, how);
  if (!run)
    return refuse(common, run.failure());
  recorder notes{(*run)->begin(), what.spec.length};
  (*run)->add(notes);
  (*run)->run();
  (*run)->finish();
  auto simulated = notes.take();
  progress_bar bar{"real run", !common.json};
  auto real = run_really(what, seed, directory + "/real",
                         [&](double part) { bar.show(part); });
  bar.done();
  if (!real)
    return fail(common, real.failure());
  auto found = hold_against(what, seed, *real, simulated);
  if (auto done = write_page(what, found, *real, simulated, directory); !done)
    return fail(common, done.failure());
  return print_truth(found, directory, common);
}

} // namespace millrace
