// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "runtime/text.hpp"
#include "simulator/gnuplot.hpp"
#include "simulator/replica_counts.hpp"
#include "simulator/tables.hpp"

namespace millrace::simulator {

namespace {

/// A number that changes over time, as a step function.
class step_line {
public:
  void add(microseconds at, double change) {
    changes_.emplace_back(at, change);
  }
  void during(microseconds from, microseconds to) {
    add(from, 1);
    add(to, -1);
  }

  /// The number at each of these times.
  std::vector<double> at(const std::vector<microseconds>& times) {
    std::sort(changes_.begin(), changes_.end());
    std::vector<double> out;
    double now = 0;
    auto next = changes_.begin();
    for (auto t : times) {
      for (; next != changes_.end() && next->first <= t; ++next)
        now += next->second;
      out.push_back(now);
    }
    return out;
  }

  /// The mean of the number between each time and the time before it.
  std::vector<double> mean(const std::vector<microseconds>& times) {
    std::sort(changes_.begin(), changes_.end());
    std::vector<double> out;
    double now = 0;
    auto next = changes_.begin();
    auto from = microseconds{0};
    for (; next != changes_.end() && next->first <= from; ++next)
      now += next->second;
    for (auto to : times) {
      auto area = 0.0;
      auto at = from;
      for (; next != changes_.end() && next->first <= to; ++next) {
        area += now * to_seconds(next->first - at);
        at = next->first;
        now += next->second;
      }
      out.push_back((area + now * to_seconds(to - at)) / to_seconds(to - from));
      from = to;
    }
    return out;
  }

private:
  std::vector<std::pair<microseconds, double>> changes_;
};

class plotter {
public:
  plotter(const loaded_scenario& what, const record& run)
    : what_(what),
      run_(run) {
    auto step = std::max<microseconds>(
      what.spec.record.every, run.length / static_cast<int64_t>(most_points));
    step = std::min(step, run.length); // at least one point
    for (auto t = step; t <= run.length; t += step)
      times_.push_back(t);
    for (auto t : times_)
      seconds_.push_back(to_seconds(t));
  }

  std::string script() {
    return latencies() + replicas() + queues() + requests();
  }

private:
  std::string latencies() {
    plot out{"latency.svg", "latency", "ms", "part of the requests"};
    out.set("yrange [0:1]");
    double least = 1e300, most = 0;
    std::map<uint32_t, std::vector<double>> by_model;
    for (auto& x : run_.requests)
      if (x.status == ec::ok)
        by_model[x.model].push_back(1e3 * to_seconds(x.ended - x.sent));
    for (auto& [model, took] : by_model) {
      std::sort(took.begin(), took.end());
      least = std::min(least, took.front());
      most = std::max(most, took.back());
      out.distribution(run_.names[model], took);
    }
    if (least > 0 && most / least > 20)
      out.set("logscale x");
    auto text = out.text();
    return text.empty() ? text : text + "unset logscale x\nset yrange [0:*]\n";
  }

  std::string replicas() {
    plot out{"replicas.svg", "replicas", "s", "replicas"};
    step_line wanted, reserved, ready;
    std::map<std::string, replica_count> of;
    for (auto& x : replica_counts(run_)) {
      auto before = std::exchange(of[x.model], x);
      wanted.add(x.at, static_cast<double>(x.wanted - before.wanted));
      reserved.add(x.at, static_cast<double>(x.reserved - before.reserved));
      ready.add(x.at, static_cast<double>(x.ready - before.ready));
    }
    out.line("wanted", seconds_, wanted.at(times_), "steps");
    out.line("reserved", seconds_, reserved.at(times_), "steps");
    out.line("ready", seconds_, ready.at(times_), "steps");
    return out.text();
  }

  std::string queues() {
    plot out{"queues.svg", "requests in the cluster", "s", "requests"};
    step_line waiting, executing;
    for (auto& x : run_.requests) {
      auto ended = x.ended < 0us ? run_.length : x.ended;
      auto starts = x.execute > 0us ? x.sent + x.queue : ended;
      waiting.during(x.sent, starts);
      if (x.execute > 0us)
        executing.during(starts, starts + x.execute);
    }
    out.line("waiting", seconds_, waiting.mean(times_));
    out.line("executing", seconds_, executing.mean(times_));
    return out.text();
  }

  std::string requests() {
    plot out{"requests.svg", "requests", "s", "per second"};
    auto step = times_.front();
    std::vector<double> asked(times_.size()), good(times_.size()),
      bad(times_.size());
    auto count = [&](std::vector<double>& where, microseconds at) {
      auto i = static_cast<size_t>(at / step);
      if (i < where.size())
        where[i] += 1 / to_seconds(step);
    };
    for (auto& x : run_.requests) {
      count(asked, x.sent);
      auto in_time =
        x.status == ec::ok && x.ended - x.sent <= slo_of(what_, run_, x);
      if (x.ended >= 0us)
        count(in_time ? good : bad, x.ended);
    }
    out.line("sent", seconds_, asked);
    out.line("answered in time", seconds_, good);
    out.line("late or failed", seconds_, bad);
    return out.text();
  }

  const loaded_scenario& what_;
  const record& run_;
  std::vector<microseconds> times_;
  std::vector<double> seconds_;
};

} // namespace

result<void> draw_plots(const loaded_scenario& what, const record& run,
                        const std::string& directory) {
  return run_gnuplot(directory, "plots.gp", plotter{what, run}.script());
}

} // namespace millrace::simulator
