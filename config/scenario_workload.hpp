// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

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
};

constexpr auto names_of(arrival_process) {
  return name_table{"poisson", "constant", "gamma", "bursts",
                    "ramp",    "rates",    "times", "functions"};
}

/// One stream of requests.
struct workload_part {
  std::string model;
  std::string application;
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
  uint64_t functions = 100;
  double tail = 1.2;
  microseconds start{0};
  microseconds length{0};
  uint64_t rows = 1;
  microseconds deadline{0};
  microseconds slo{0};
  MILLRACE_FIELDS(workload_part, model, application, mix, arrivals, rate,
                  to_rate, cv, burst, burst_part, burst_length, file, scale,
                  functions, tail, start, length, rows, deadline, slo)
  static constexpr auto notes() {
    return std::array{
      note{"who is asked"},
      note{"or which application, whose quickest variant then answers"},
      note{"or several models, each with its weight"},
      note{"how requests arrive"},
      note{"requests per second, on average (ramp: at first)", 1e-6, 1e7},
      note{"of a ramp, at its end", 0, 1e7},
      note{"coefficient of variation of a gamma process's gaps", 0.01, 100},
      note{"how many times the usual rate a burst has", 1, 1e4},
      note{"part of the time that is burst", 0.001, 0.999},
      note{"mean length of a burst", 1e-3, 86'400},
      note{"of rates or times; gzipped ones too"},
      note{"multiplies every rate", 1e-6, 1e6},
      note{"how many functions, spread over the models by chance", 1, 1e6},
      note{"exponent of the functions' rates: the n-th busiest has a rate like"
           " n to the power of minus this",
           0.1, 5},
      note{"when it begins", 0, 3.2e7},
      note{"how long it lasts; 0: to the end", 0, 3.2e7},
      note{"in one request", 1, 4096},
      note{"of each request; 0: the model's", 0, 600},
      note{"what counts as goodput; 0: the deadline", 0, 600}};
  }
};

} // namespace millrace
