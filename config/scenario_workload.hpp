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
  gamma,     ///< independent gaps with coefficient of variation `cv`
  bursts,    ///< Poisson, alternating between a high and a low rate
  ramp,      ///< Poisson with a rate that changes linearly
  rates,     ///< a file of requests per second
  times,     ///< a file of arrival times
  functions, ///< many functions with heavy-tailed rates, as in Azure's traces
  refit,     ///< gamma gaps at the rates of a file
};

constexpr auto names_of(arrival_process) {
  return name_table{"poisson", "constant", "gamma",     "bursts", "ramp",
                    "rates",   "times",    "functions", "refit"};
}

/// Whether a process needs a file.
constexpr bool is_from_file(arrival_process process) {
  using enum arrival_process;
  return process == rates || process == times || process == refit;
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

/// Requirements of a request for an application on the variant.
struct request_goal {
  std::optional<double> accuracy;
  std::optional<microseconds> latency;
  MILLRACE_FIELDS(request_goal, accuracy, latency)
  static constexpr auto notes() {
    return std::array{
      note{"lowest accuracy of the variant; default: any", 0, 1},
      note{"highest latency of the variant; default: any", 1e-6, 86'400}};
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
      note{"model that the requests name"},
      note{"application that the requests name, instead of a model; its"
           " fastest variant answers"},
      note{"requirements of requests for an application on the variant"},
      note{"models with their weights, instead of one model"},
      note{"how requests arrive"},
      note{"mean requests per second; of a ramp, at its start", 1e-6, 1e7},
      note{"requests per second at the end of a ramp", 0, 1e7},
      note{"coefficient of variation of gamma gaps", 0.01, 100},
      note{"factor on the rate during a burst", 1, 1e4},
      note{"fraction of the time with a burst", 0.001, 0.999},
      note{"mean length of a burst", 1e-3, 86'400},
      note{"file of rates or times, which may be gzipped"},
      note{"factor on all rates", 1e-6, 1e6},
      note{"requests per second in the file's busiest second, instead of"
           " `scale`; 0: use `scale`",
           0, 1e7},
      note{"time in the file at which the part begins; the file's earlier"
           " content follows its end",
           0, 3.2e7},
      note{"number of functions, assigned to the models at random", 1, 1e6},
      note{"exponent of the functions' rates: the n-th busiest function has a"
           " rate proportional to n to the power of minus this exponent",
           0.1, 5},
      note{"how the requests of one function arrive; gamma uses `cv`, on_off"
           " uses `burst_part` and `burst_length`"},
      note{"intervals in which the rate is multiplied; overlapping surges"
           " multiply each other"},
      note{"daily cycle of the rate"},
      note{"length of periods in which all requests arrive at the period's"
           " start; 0: requests arrive separately",
           0, 3600},
      note{"exact number of requests of the part, instead of a rate; 0: use"
           " the rate",
           0, 1e8},
      note{"start of the part", 0, 3.2e7},
      note{"length of the part; 0: to the end of the run", 0, 3.2e7},
      note{"rows of each request", 1, 4096},
      note{"deadline of each request; 0: the model's deadline", 0, 86'400},
      note{"latency up to which a request counts as goodput; 0: the deadline",
           0, 86'400}};
  }
};

} // namespace millrace
