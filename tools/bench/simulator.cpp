// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iostream>

#include "bench/bench.hpp"
#include "bench/floors.hpp"
#include "millrace/child.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "simulator/simulation.hpp"

namespace millrace {

namespace {

struct simulator_options {
  std::string trace;
  int rounds = 5;
  std::string length = "1h";
  uint64_t hosts = 200;
  bool once = false; ///< one run, with figures as JSON: for child processes
};

/// The mean rate of the trace that `bursts` replaces.
constexpr double usual_rate = 68.8;
constexpr uint64_t gpus_per_host = 8;
/// Limit for the replicas in a model's settings.
constexpr uint64_t most_replicas = 10'000;

/// Hosts of eight GPUs with a replica on each, and requests as in the trace.
std::string big_cluster(const simulator_options& x) {
  auto replicas = std::min(x.hosts * gpus_per_host, most_replicas);
  std::string arrivals =
    "arrivals: bursts, burst: 4, rate: " + std::to_string(usual_rate);
  if (!x.trace.empty())
    arrivals = "arrivals: rates, file: '" + x.trace + "'";
  return "name: bench\n"
         "length: "
         + x.length
         + "\n"
           "record: {requests: false, events: false}\n"
           "hosts:\n"
           "  - {name: front, roles: [gateway, controller]}\n"
           "  - {name: gpu, count: "
         + std::to_string(x.hosts)
         + ", rack: r, rack_size: 20, roles: [worker], devices: [{kind: v100,"
           " count: 8}]}\n"
           "bundles:\n"
           "  resnet50: {bytes: 98MiB, input: 602112, output: 4000, execute:"
           " {v100: {1: 2.4ms, 32: 21.3ms}}, load: {v100: 1.5s}}\n"
           "models: [{model: resnet50, replicas: "
         + std::to_string(replicas)
         + ", policy: {batch: 32}}]\n"
           "workload: [{model: resnet50, deadline: 1s, "
         + arrivals + "}]\n";
}

/// Figures of one run.
struct run_figures {
  double seconds = 0; ///< real time of the whole run
  double messages = 0;
  double events = 0; ///< messages, and events outside actors
  double requests = 0;
  double resident = 0; ///< highest number of bytes
  MILLRACE_FIELDS(run_figures, seconds, messages, events, requests, resident)
};

double peak_resident() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:"))
      return std::stod(line.substr(6)) * 1024;
  return 0;
}

/// Counts answers, and stores nothing.
class counter_of_answers : public simulator::watcher {
public:
  size_t ok = 0;
  void on_reply(const session&, uint64_t, const infer_reply& reply,
                timestamp) override {
    ok += reply.status == ec::ok;
  }
};

result<run_figures> run_cluster(const simulator_options& x) {
  auto what = parse_scenario(big_cluster(x), "bench.yaml");
  if (!what)
    return what.failure();
  auto begun = steady_now();
  auto run = simulator::simulation::prepare(*what, {});
  if (!run)
    return run.failure();
  counter_of_answers answers;
  (*run)->add(answers);
  (*run)->run();
  auto& world = (*run)->inside().world();
  run_figures out;
  out.seconds = to_seconds(steady_now() - begun);
  out.messages = static_cast<double>(world.messages());
  out.events = static_cast<double>(world.messages() + world.actions());
  out.requests = static_cast<double>(answers.ok);
  out.resident = peak_resident();
  return out;
}

/// One run in a child process, to measure its memory separately.
result<run_figures> run_apart(const simulator_options& x) {
  std::vector<std::string> args{"simulator", "--once",
                                "--hosts",   std::to_string(x.hosts),
                                "--time",    x.length};
  if (!x.trace.empty())
    args.insert(args.end(), {"--trace", x.trace});
  auto text = child{args, this_program}.wait();
  auto y = json::parse(text, nullptr, false);
  if (!y.is_object() || !y.contains("seconds"))
    return error{ec::internal, "a run ended without figures: " + text, {}};
  run_figures out;
  read_json(y, out);
  return out;
}

int run_bench(const simulator_options& x, const common_options& common) {
  if (x.once) {
    auto found = run_cluster(x);
    if (!found)
      return fail(common, found.failure());
    std::cout << json_text(to_json(*found)) << std::endl;
    return exit_ok;
  }
  progress_bar bar{"bench simulator", !common.json};
  bench_report report{"simulator", {}};
  paired messages, clocked, events, seconds, memory;
  paired growth_time, growth_memory;
  auto larger = x;
  larger.hosts = 10 * x.hosts;
  for (int i = 0; i < x.rounds; ++i) {
    bar.show(static_cast<double>(i) / x.rounds);
    auto floor = bare_coordinator_rate();
    auto clock = bare_clock_rate();
    auto found = run_apart(x);
    if (!found)
      return fail(common, found.failure());
    messages.add(found->messages / found->seconds, floor);
    clocked.add(found->messages / found->seconds, clock);
    events.add(found->events / found->seconds, floor);
    seconds.add(found->seconds, 15);
    memory.add(found->resident / (1 << 20), 2048);
    if (i > 0 && i + 1 < x.rounds)
      continue;
    auto large = run_apart(larger);
    if (!large)
      return fail(common, large.failure());
    growth_time.add(large->seconds, 10 * found->seconds);
    growth_memory.add((large->resident - found->resident) / 1024
                        / static_cast<double>(larger.hosts - x.hosts),
                      0);
  }
  bar.done();
  auto hosts = std::to_string(x.hosts) + " hosts";
  auto more = std::to_string(larger.hosts) + " hosts";
  constexpr auto bare = "CAF's bare coordinator, 1600 actors";
  report.results = {
    messages.row(hosts + ", actor messages", "1/s", bare),
    clocked.row(hosts + ", actor messages", "1/s",
                "the same, each by CAF's clock"),
    events.row(hosts + ", events", "1/s", bare),
    seconds.row(hosts + ", " + x.length + " of requests", "s", "aim"),
    memory.row(hosts + ", memory", "MiB", "aim"),
    growth_time.row(more + ", " + x.length + " of requests", "s",
                    "ten times " + hosts),
    growth_memory.row("memory of one more host", "KiB", "none")};
  print_report(report, common);
  return exit_ok;
}

} // namespace

void add_simulator_bench(CLI::App& bench, common_options& common,
                         verb_action& run) {
  auto x = std::make_shared<simulator_options>();
  auto* verb = bench.add_subcommand(
    "simulator", "Speed and memory of the simulator on a large cluster");
  verb
    ->add_option("--trace", x->trace,
                 "A CSV file (.gz too) of requests per second; default:"
                 " bursts of 68.8 per second on average")
    ->check(CLI::ExistingFile);
  verb->add_option("--hosts", x->hosts, "Hosts of eight GPUs each")
    ->transform(whole_number(1, 10'000))
    ->capture_default_str();
  verb->add_option("--rounds", x->rounds, "Interleaved rounds")
    ->transform(whole_number(1, 1000))
    ->capture_default_str();
  verb->add_option("--time", x->length, "Virtual time of each run")
    ->capture_default_str();
  verb->add_flag("--once", x->once, "One run; its figures as JSON");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_bench(*x, common); };
  });
}

} // namespace millrace
