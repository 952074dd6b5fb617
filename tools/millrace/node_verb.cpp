// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>

#include <sys/resource.h>

#include "actors/node/node.hpp"
#include "millrace/node_check.hpp"
#include "millrace/print.hpp"
#include "runtime/log.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

namespace {

/// How long a drained node may take to end its threads.
constexpr seconds last_wait{5};

struct node_options {
  std::string config;
  std::string name;
  std::vector<std::string> overrides;
  bool check = false;
  bool options = false;
  bool metrics = false;
};

/// A link takes several descriptors, and the soft limit is often 1024.
void raise_descriptor_limit() {
  rlimit x{};
  if (::getrlimit(RLIMIT_NOFILE, &x) != 0)
    return;
  x.rlim_cur = x.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &x));
}

int check_node(const node_options& x, const common_options& common,
               const cluster_config& config, const result<std::string>& name) {
  if (!name && !x.name.empty())
    return refuse(common, name.failure());
  if (name)
    if (auto keys = node::check_keys(config, *name); !keys)
      return refuse(common, keys.failure());
  auto doubts = check_beside(config);
  if (!doubts)
    return refuse(common, doubts.failure());
  if (common.json)
    std::cout << json_text(
      json{{"config", x.config}, {"ok", true}, {"warnings", *doubts}})
              << std::endl;
  else
    std::cout << x.config << ": fine (" << counted(config.nodes.size(), "node")
              << ", " << counted(config.models.size(), "model") << ")"
              << std::endl;
  if (!common.json)
    print_warnings(x.config, *doubts);
  return exit_ok;
}

int run_until_drained(const cluster_config& config, const std::string& name,
                      const common_options& common) {
  set_log_level(config.log.level);
  raise_descriptor_limit();
  // All threads inherit the mask; only the waiting thread below takes signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) // nohup: outlive the terminal
    sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  auto runtime = node::start(config, name);
  if (!runtime)
    return refuse(common, runtime.failure());
  std::cout << (*runtime)->describe() << std::endl;
  std::mutex mutex; // guards ended
  bool ended = false;
  std::thread waiter{[&] {
    int signal = 0;
    while (sigwait(&signals, &signal) == 0) {
      std::lock_guard guard{mutex};
      if (!ended)
        (*runtime)->drain();
    }
  }};
  waiter.detach();
  auto done = (*runtime)->wait();
  {
    std::lock_guard guard{mutex};
    ended = true;
  }
  // A thread that hangs in a model cannot be stopped, but the process can.
  std::promise<void> stopped;
  std::thread last_resort{[&] {
    if (stopped.get_future().wait_for(last_wait) == std::future_status::ready)
      return;
    log_event(log_level::error, "node", "ended_by_force",
              {{"waited_s", last_wait.count()}});
    std::_Exit(exit_failed);
  }};
  runtime->reset();
  stopped.set_value();
  last_resort.join();
  // The waiting thread still waits for signals, and then sees `ended`.
  if (!done)
    fail(common, done.failure());
  std::cout.flush();
  std::_Exit(done ? exit_ok : exit_failed);
}

int run_node(const node_options& x, const common_options& common) {
  if (x.options) {
    std::cout << config_reference();
    return exit_ok;
  }
  if (x.metrics) {
    std::cout << millrace::metrics{recording::off}.reference();
    return exit_ok;
  }
  if (x.config.empty()) {
    return wrong_call(common,
                      {ec::bad_request, "no --config FILE was given", {}});
  }
  auto config = load_config(x.config, x.overrides);
  if (!config)
    return refuse(common, config.failure());
  auto name = choose_node(*config, x.name);
  if (x.check)
    return check_node(x, common, *config, name);
  if (!name)
    return refuse(common, name.failure());
  return run_until_drained(*config, *name, common);
}

} // namespace

void add_node_verb(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<node_options>();
  auto* verb = app.add_subcommand("node", "Launch a node runtime");
  verb->add_option("--config", x->config, "The cluster's YAML file");
  verb->add_option(
    "--node", x->name,
    "Name of the node in the file; optional if the file has one node");
  verb->add_option("--set", x->overrides,
                   "KEY=VALUE replaces the file's value, such as link.beat=50ms"
                   " or nodes.alpha.http=127.0.0.1:9000; repeatable");
  verb->add_flag("--options", x->options,
                 "List every option of the file, with default and limits");
  verb->add_flag("--metrics", x->metrics, "List every metric of a node");
  verb->add_flag(
    "--check", x->check,
    "Only check the file, its profiles, the keys of --node and the bundles on"
    " this host");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_node(*x, common); };
  });
}

} // namespace millrace
