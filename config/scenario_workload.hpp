// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// How requests arrive.
enum class arrival_process : uint8_t {
  poisson,
  constant,  ///< evenly spaced
  gamma,     ///< independent gaps of a wished coefficient of variation
  bursts,    ///< Poisson at a rate that is now high, now low
  ramp,      ///< Poisson at a rate that grows or falls evenly
  rates,     ///< a file of requests per second
  times,     ///< a file of single arrivals
  functions, ///< many functions with heavy-tailed rates, as in Azure's traces
  refit,     ///< gamma gaps at the rates of a file
};

constexpr auto names_of(arrival_process) {
  return name_table{"poisson", "constant", "gamma",     "bursts", "ramp",
                    "rates",   "times",    "functions", "refit"};
}

/// Whether a process needs a file.
constexpr bool is_from_file(arrival_process x) {
  using enum arrival_process;
  return x == rates || x == times || x == refit;
}

/// The arrival process of each function.
enum class function_process : uint8_t {
  poisson,
  gamma,  ///< independent gaps with coefficient of variation `cv`
  on_off, ///< Poisson during bursts, silent between bursts
};

constexpr auto names_of(function_process) {
  return name_table{"poisson", "gamma", "on_off"};
}

/// A time during which the rate is multiplied.
struct rate_surge {
  microseconds at{0};
  microseconds lasts{10'000'000};
  double times = 2;
  microseconds every{0};
  MILLRACE_FIELDS(rate_surge, at, lasts, times, every)
  static constexpr auto notes() {
    return std::array{
      note{"start of the first surge, from the start of the part", 0, 3.2e7},
      note{"length of a surge", 1e-3, 3.2e7},
      note{"factor of the rate during a surge", 0, 1e4},
      note{"time from one surge's start to the next; 0: one surge", 0, 3.2e7}};
  }
};

/// A rate that follows a cosine.
struct diurnal_cycle {
  double depth = 0;
  microseconds period{86'400'000'000};
  microseconds peak_at{0};
  MILLRACE_FIELDS(diurnal_cycle, depth, period, peak_at)
  static constexpr auto notes() {
    return std::array{
      note{"the rate swings between 1 - depth and 1 + depth times its mean", 0,
           0.99},
      note{"length of a cycle", 1e-3, 3.2e7},
      note{"time of the highest rate, from the start of the part", 0, 3.2e7}};
  }
};

/// What a request for an application demands of the variant that answers.
struct request_goal {
  std::optional<double> accuracy;
  std::optional<microseconds> latency;
  MILLRACE_FIELDS(request_goal, accuracy, latency)
  static constexpr auto notes() {
    return std::array{
      note{"accuracy of the variant, at least; default: any", 0, 1},
      note{"latency of the variant, at most; default: any", 1e-6, 86'400}};
  }
};

/// One stream of requests.
struct workload_part {
  std::string model;
  std::string application;
  request_goal goal;
  std::map<std::string, double> mix;
  arrival_process arrivals = arrival_process::poisson;
  double rate = 1;
  double to_rate = 0;
  double cv = 1;
  double burst = 4;
  double burst_part = 0.1;
  microseconds burst_length{10'000'000};
  std::string file;
  double scale = 1;
  double peak = 0;
  microseconds offset{0};
  uint64_t functions = 100;
  double tail = 1.2;
  function_process each = function_process::poisson;
  std::vector<rate_surge> surges;
  diurnal_cycle diurnal;
  microseconds granularity{0};
  uint64_t requests = 0;
  microseconds start{0};
  microseconds length{0};
  uint64_t rows = 1;
  microseconds deadline{0};
  microseconds slo{0};
  MILLRACE_FIELDS(workload_part, model, application, goal, mix, arrivals, rate,
                  to_rate, cv, burst, burst_part, burst_length, file, scale,
                  peak, offset, functions, tail, each, surges, diurnal,
                  granularity, requests, start, length, rows, deadline, slo)
  static constexpr auto notes() {
    return std::array{
      note{"who is asked"},
      note{"or which application, whose quickest variant then answers"},
      note{"what requests for an application demand of the variant"},
      note{"or several models, each with its weight"},
      note{"how requests arrive"},
      note{"requests per second, on average (ramp: at first)", 1e-6, 1e7},
      note{"of a ramp, at its end", 0, 1e7},
      note{"coefficient of variation of gamma gaps", 0.01, 100},
      note{"how many times the usual rate a burst has", 1, 1e4},
      note{"part of the time that is burst", 0.001, 0.999},
      note{"mean length of a burst", 1e-3, 86'400},
      note{"of rates or times; gzipped ones too"},
      note{"multiplies every rate", 1e-6, 1e6},
      note{"requests per second in the file's busiest second, in place of"
           " scale; 0: scale decides",
           0, 1e7},
      note{"point of the file at which the part begins; what the file has"
           " before that point follows its end",
           0, 3.2e7},
      note{"how many functions, spread over the models by chance", 1, 1e6},
      note{"exponent of the functions' rates: the n-th busiest has a rate like"
           " n to the power of minus this",
           0.1, 5},
      note{"how the requests of one function arrive; gamma takes cv, on_off"
           " takes burst_part and burst_length"},
      note{"times at which the rate is multiplied; surges that overlap multiply"
           " each other"},
      note{"a daily swing of the rate"},
      note{"all requests of a period of this length come at its start; 0:"
           " smooth",
           0, 3600},
      note{"the exact number of requests of the part, in place of a rate; 0:"
           " the rate decides",
           0, 1e8},
      note{"when it begins", 0, 3.2e7},
      note{"how long it lasts; 0: to the end", 0, 3.2e7},
      note{"in one request", 1, 4096},
      note{"of each request; 0: the model's", 0, 86'400},
      note{"what counts as goodput; 0: the deadline", 0, 86'400}};
  }
};

} // namespace millrace
