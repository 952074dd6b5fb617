// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <unordered_map>

#include "client/client.hpp"
#include "millrace/array_files.hpp"
#include "millrace/interrupt.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "runtime/text.hpp"
#include "simulator/arrivals.hpp"
#include "simulator/samples.hpp"

namespace millrace {

namespace {

struct load_options {
  client_options to;
  std::string model;
  std::vector<std::string> inputs;
  size_t window = 1;
  std::optional<double> rate;
  std::string trace;
  double scale = 1;
  std::optional<double> cv;
  std::string sends;
  std::string length = "10s";
  std::string deadline = "1s";
  std::string slo;
  size_t rows = 1;
  uint64_t seed = 1;
};

/// A request of an open loop; times of the steady clock.
struct send_time {
  timestamp intended;
  timestamp sent;
};

/// The result of a load run.
struct load_result {
  samples latency; ///< ms, of ok answers
  samples delay;   ///< ms from the intended time to the send, for an open loop
  std::vector<send_time> sends; ///< for an open loop, in order
  double sending = 0; ///< seconds until the last send of an open loop was due
  std::map<ec, size_t> by_status;
  size_t in_slo = 0;
  size_t submitted = 0;
  double seconds = 0;
};

/// Makes a request's inputs: rows of files, or zeros as in the signature.
class input_source {
public:
  static result<input_source> open(const load_options& x, client& gateway) {
    auto models = gateway.models();
    if (!models)
      return models.failure();
    const model_info* found = nullptr;
    for (auto& m : *models)
      if (m.model == x.model)
        found = &m;
    if (found == nullptr)
      return error{
        ec::unknown_model,
        "the gateway serves no model " + shown(x.model) + "; it serves "
          + (models->empty()
               ? "none yet"
               : joined(*models, ", ", [](auto& m) { return m.model; })),
        {}};
    input_source out;
    out.rows_ = x.rows;
    if (x.inputs.empty())
      return out.use_zeros(found->signature);
    auto arrays = read_arrays(x.inputs);
    if (!arrays)
      return arrays.failure();
    out.arrays_ = std::move(*arrays);
    for (size_t i = 0; i < out.arrays_.size(); ++i) {
      auto& extents = out.arrays_[i].value.extents;
      auto rows = extents.rank() == 0 ? 0 : static_cast<size_t>(extents[0]);
      if (rows < x.rows)
        return error{ec::bad_request,
                     x.inputs[i] + ": has " + std::to_string(rows)
                       + " rows, fewer than the " + std::to_string(x.rows)
                       + " of a request",
                     {}};
      out.there_ = std::min(out.there_, rows);
    }
    return out;
  }

  infer next(const std::string& model) {
    infer out;
    out.model = model;
    if (!zeros_.empty()) {
      out.inputs = zeros_;
      return out;
    }
    if (at_ + rows_ > there_)
      at_ = 0;
    for (auto& x : arrays_)
      out.inputs.push_back({x.name, *choose_rows(x.value, at_, rows_)});
    at_ += rows_;
    return out;
  }

private:
  result<input_source> use_zeros(const signature& s) {
    for (auto& spec : s.inputs) {
      auto extents = with_rows(s, spec, static_cast<int64_t>(rows_));
      auto bytes = dense_bytes(spec.type, extents);
      if (!bytes || *bytes > wire_limits::message_bytes)
        return error{ec::too_large,
                     "--rows " + std::to_string(rows_)
                       + ": a request would have more than "
                       + format_bytes(wire_limits::message_bytes),
                     {}};
      auto zeros = tensor::zeros(spec.type, extents);
      if (!zeros)
        return zeros.failure();
      zeros_.push_back({spec.name, std::move(*zeros)});
    }
    return std::move(*this);
  }

  std::vector<named_tensor> zeros_;
  std::vector<named_tensor> arrays_;
  size_t there_ = SIZE_MAX; ///< number of rows in each file
  size_t rows_ = 1;
  size_t at_ = 0;
};

class load_run {
public:
  load_run(client& gateway, input_source& inputs, std::string model,
           microseconds deadline, microseconds slo, progress_bar& bar)
    : gateway_(gateway),
      inputs_(inputs),
      model_(std::move(model)),
      deadline_(deadline),
      slo_(slo),
      bar_(bar) {}

  /// Keeps `window` requests open for the time `length`.
  load_result closed(size_t window, microseconds length) {
    auto begin = steady_now();
    while (steady_now() - begin < length && !ctrl_c_.happened()) {
      while (sent_.size() < window && steady_now() >= resume_)
        submit(steady_now());
      take(std::min(length, pause));
      bar_.show(to_seconds(steady_now() - begin) / to_seconds(length));
    }
    return finish(begin);
  }

  /// Submits requests at the given times, even if answers are late. Latency
  /// counts from the intended time, so that a stalled client hides no delay.
  load_result open(const arrival_times& arrivals) {
    auto begin = steady_now();
    auto length = arrivals.empty() ? microseconds{1} : arrivals.back();
    for (auto at : arrivals) {
      while (steady_now() < begin + at && !ctrl_c_.happened())
        take(std::min(pause, to_us(begin + at - steady_now())));
      if (ctrl_c_.happened())
        break;
      submit(begin + at);
      auto sent = steady_now();
      result_.delay.add(1e3 * to_seconds(sent - (begin + at)));
      result_.sends.push_back({begin + at, sent});
      result_.sending = to_seconds(sent - begin);
      bar_.show(to_seconds(at) / to_seconds(length));
    }
    return finish(begin);
  }

private:
  static constexpr microseconds pause{10'000};

  void submit(timestamp intended) {
    ++result_.submitted;
    auto id = gateway_.submit(inputs_.next(model_), deadline_);
    sent_.emplace(id, intended);
  }

  void take(microseconds longest) {
    auto x = gateway_.receive(longest);
    while (x) {
      account(*x);
      x = gateway_.receive(microseconds{0});
    }
  }

  void account(const client::answer& x) {
    auto i = sent_.find(x.id);
    if (i == sent_.end())
      return;
    ++result_.by_status[x.reply.status];
    if (x.reply.status == ec::unavailable || x.reply.status == ec::overloaded)
      resume_ = steady_now() + std::max(pause, x.reply.retry_after);
    if (x.reply.status == ec::ok) {
      auto took = steady_now() - i->second;
      result_.latency.add(1e3 * to_seconds(took));
      result_.in_slo += took <= slo_;
    }
    sent_.erase(i);
  }

  load_result finish(timestamp begin) {
    result_.seconds = to_seconds(steady_now() - begin);
    while (!sent_.empty())
      take(deadline_);
    return std::move(result_);
  }

  client& gateway_;
  input_source& inputs_;
  std::string model_;
  microseconds deadline_;
  microseconds slo_;
  progress_bar& bar_;
  interruptible ctrl_c_; ///< ends the load; requests already sent count
  std::unordered_map<uint64_t, timestamp> sent_;
  timestamp resume_; ///< of a closed loop
  load_result result_;
};

/// The rates of an open loop, in requests per second.
struct load_rates {
  double target = 0;   ///< planned arrivals per planned time
  double achieved = 0; ///< sends per time that the sends took
};

int print_load(load_result& x, std::optional<load_rates> rates,
               microseconds slo, const common_options& common) {
  auto answered = x.by_status.contains(ec::ok) ? exit_ok : exit_failed;
  auto per_second = [&](size_t n) {
    return static_cast<double>(n) / std::max(x.seconds, 1e-9);
  };
  if (common.json) {
    auto statuses = json::object();
    for (auto& [status, n] : x.by_status)
      statuses[std::string{to_string(status)}] = n;
    json out{{"submitted", x.submitted},
             {"seconds", x.seconds},
             {"statuses", statuses},
             {"throughput", per_second(x.latency.size())},
             {"goodput", per_second(x.in_slo)},
             {"slo_us", slo.count()},
             {"p50_ms", x.latency.quantile(.5)},
             {"p90_ms", x.latency.quantile(.9)},
             {"p99_ms", x.latency.quantile(.99)},
             {"p999_ms", x.latency.quantile(.999)},
             {"mean_ms", x.latency.mean()},
             {"max_ms", x.latency.quantile(1)}};
    if (rates) {
      out["target_rate"] = rates->target;
      out["achieved_rate"] = rates->achieved;
      out["send_delay_p99_ms"] = x.delay.quantile(.99);
      out["send_delay_max_ms"] = x.delay.quantile(1);
    }
    std::cout << json_text(out) << std::endl;
    return answered;
  }
  std::printf("%zu requests in %.1f s: %.0f answered/s, goodput %.0f/s within"
              " %s\n",
              x.submitted, x.seconds, per_second(x.latency.size()),
              per_second(x.in_slo), format_duration(slo).c_str());
  if (rates)
    std::printf("  sent %.1f/s, target %.1f/s; after the intended time: p99"
                " %.2f ms, max %.2f\n",
                rates->achieved, rates->target, x.delay.quantile(.99),
                x.delay.quantile(1));
  for (auto& [status, n] : x.by_status)
    std::printf("  %-18s %zu\n", std::string{to_string(status)}.c_str(), n);
  std::printf("  latency p50 %.2f ms, p90 %.2f, p99 %.2f, p99.9 %.2f, max"
              " %.2f\n",
              x.latency.quantile(.5), x.latency.quantile(.9),
              x.latency.quantile(.99), x.latency.quantile(.999),
              x.latency.quantile(1));
  return answered;
}

/// The planned arrivals of an open loop; empty for a closed loop.
result<arrival_times> plan_arrivals(const load_options& x,
                                    microseconds length) {
  workload_part how;
  if (!x.trace.empty()) {
    how.arrivals = x.cv ? arrival_process::refit : arrival_process::rates;
    how.file = x.trace;
  } else if (!x.rate) {
    return arrival_times{};
  } else if (x.cv) {
    how.arrivals = arrival_process::gamma;
  }
  how.cv = x.cv.value_or(1);
  how.rate = x.rate.value_or(1);
  how.scale = x.scale;
  return make_arrivals(how, length, random_stream{x.seed});
}

/// The rates of an open loop with arrivals planned for `length`, or for the
/// shorter time until the loop was interrupted.
load_rates rates_of(const arrival_times& planned, microseconds length,
                    const load_result& found) {
  load_rates out;
  auto seconds = to_seconds(length);
  out.target = static_cast<double>(planned.size()) / seconds;
  // A loop without delays sends its last request before the planned end.
  auto whole = found.sends.size() == planned.size();
  auto took = whole ? std::max(seconds, found.sending) : found.sending;
  if (took > 0)
    out.achieved = static_cast<double>(found.sends.size()) / took;
  return out;
}

/// Microseconds from 1970 to the zero of the steady clock.
int64_t unix_offset() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000
         - to_us(steady_now().time_since_epoch()).count();
}

/// Writes lines "intended_us,sent_us", in microseconds since 1970.
result<void> write_sends(const std::string& path,
                         const std::vector<send_time>& sends, int64_t to_unix) {
  std::ofstream out{path};
  out << "intended_us,sent_us\n";
  auto us = [&](timestamp x) {
    return to_us(x.time_since_epoch()).count() + to_unix;
  };
  for (auto& x : sends)
    out << us(x.intended) << ',' << us(x.sent) << '\n';
  out.close();
  if (!out)
    return error{ec::unavailable, path + ": cannot be written", {}};
  return {};
}

int run_load(const load_options& x, const common_options& common) {
  auto length = parse_duration(x.length);
  auto deadline = parse_duration(x.deadline);
  auto slo = parse_duration(x.slo.empty() ? x.deadline : x.slo);
  for (auto [option, y] : {std::pair{"--time", &length},
                           {"--deadline", &deadline},
                           {"--slo", &slo}})
    if (!*y)
      return fail(common, std::move(y->failure()).within(option));
  if (*length <= 0us)
    return fail(common,
                {ec::bad_request, "--time: expected more than 0 s", {}});
  auto arrivals = plan_arrivals(x, *length);
  if (!arrivals)
    return fail(common, arrivals.failure());
  auto gateway = client::connect(x.to.gateway, 5s, x.to.key);
  if (!gateway)
    return fail(common, gateway.failure());
  auto inputs = input_source::open(x, *gateway);
  if (!inputs)
    return fail(common, inputs.failure());
  progress_bar bar{"load", !common.json};
  load_run run{*gateway, *inputs, x.model, *deadline, *slo, bar};
  auto open_loop = x.rate || !x.trace.empty();
  auto found = open_loop ? run.open(*arrivals) : run.closed(x.window, *length);
  bar.done();
  std::optional<load_rates> rates;
  if (open_loop)
    rates = rates_of(*arrivals, *length, found);
  if (!x.sends.empty())
    if (auto done = write_sends(x.sends, found.sends, unix_offset()); !done)
      return fail(common, done.failure());
  return print_load(found, rates, *slo, common);
}

} // namespace

void add_load_verb(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<load_options>();
  auto* verb = app.add_subcommand(
    "load", "Generate load on a cluster; print percentiles and goodput");
  add_client_options(*verb, x->to);
  verb->add_option("--model", x->model, "Model to run")->required();
  verb->add_option("--input", x->inputs,
                   "A .npy file, or NAME=FILE; its rows are sent in turn; once "
                   "per input; default: zeros");
  verb->add_option("--rows", x->rows, "Rows in one request")
    ->transform(whole_number(1, 1 << 20))
    ->capture_default_str();
  auto* closed = verb->add_option("--closed", x->window,
                                  "Closed loop: number of open requests");
  closed->transform(whole_number(1, 1'000'000))->capture_default_str();
  auto* rate =
    verb
      ->add_option("--rate", x->rate, "Open loop: Poisson arrivals per second")
      ->excludes(closed);
  verb
    ->add_option("--trace", x->trace,
                 "Open loop: a CSV file (.gz too) of requests per second")
    ->check(CLI::ExistingFile)
    ->excludes(closed)
    ->excludes(rate);
  verb->add_option("--scale", x->scale, "Multiplies the trace's rates")
    ->capture_default_str();
  verb
    ->add_option("--cv", x->cv,
                 "Gamma gaps of this coefficient of variation, at the rates of "
                 "--rate or --trace")
    ->check(CLI::Range(0.01, 100.0))
    ->excludes(closed);
  verb
    ->add_option("--sends", x->sends,
                 "CSV file to write: the intended and the actual time of each "
                 "send of an open loop, in microseconds since 1970")
    ->excludes(closed);
  verb->add_option("--time", x->length, "Duration of the load")
    ->capture_default_str();
  verb->add_option("--deadline", x->deadline, "Deadline of each request")
    ->capture_default_str();
  verb->add_option("--slo", x->slo,
                   "Latency limit for goodput; default: the deadline");
  verb->add_option("--seed", x->seed, "Seed of the arrivals")
    ->capture_default_str();
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_load(*x, common); };
  });
}

} // namespace millrace
