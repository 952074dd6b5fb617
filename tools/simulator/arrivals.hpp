// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "runtime/error.hpp"
#include "runtime/random.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Points in time, from 0 and in order, at which an open loop submits requests.
using arrival_times = std::vector<microseconds>;

/// Limit for the number of arrivals of one part.
constexpr size_t max_arrivals = 100'000'000;

/// The arrivals of one part of a workload within `length`; the part's start and
/// length are not applied yet. For arrivals of kind `functions`, `function`
/// receives the function's number of each arrival. Kinds:
///
/// - poisson: exponential gaps of mean 1 / rate
/// - constant: gaps of 1 / rate
/// - gamma: independent gamma gaps of mean 1 / rate and the given cv
/// - bursts: a Poisson process that alternates between two rates, for
///   exponential times; the mean is the rate
/// - ramp: a Poisson process with a rate that changes from rate to to_rate
/// - rates: a file of requests per second, one number a line (a heading, and
///   columns before the last, are ignored); the requests of a second are spread
///   uniformly at random
/// - times: a file of seconds, one a line as above, from the first on
/// - functions: Poisson, gamma or on-off processes; the rate of a function
///   falls with a power of its rank, and the rates sum to the rate
/// - refit: a gamma process with the given cv and the rates of such a file
///
/// Surges and the daily swing multiply the rate by changing time, so that a
/// gamma process keeps the cv of its gaps in operational time (rate_shape). A
/// file is read from the part's offset to its end, then from its start to the
/// offset. `requests` gives exactly that number: independent gaps are
/// stretched; other processes are drawn at a higher rate and thinned.
/// `granularity` moves each arrival to the start of its period. `scale`
/// multiplies every rate; fractions are rounded at random. Errors: bad_request
/// with file and line, for values out of range, and over max_arrivals.
result<arrival_times> make_arrivals(const workload_part& part,
                                    microseconds length, random_stream random,
                                    std::vector<uint32_t>* function = nullptr);

} // namespace millrace
