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

/// More than this are not held.
constexpr size_t max_arrivals = 100'000'000;

/// The arrivals of one part of a workload within `length`; its start and
/// length are not applied yet. `function` gets, with arrivals of functions, a
/// function's number for each.
///
/// - poisson: exponential gaps of mean 1 / rate
/// - constant: gaps of 1 / rate
/// - gamma: independent gamma gaps of mean 1 / rate and the wished cv
/// - bursts: a Poisson process whose rate alternates between two levels, at
///   exponential lengths, so that its mean is the rate
/// - ramp: a Poisson process whose rate goes from rate to to_rate
/// - rates: a file of requests per second, one number a line (a heading, and
///   columns before the last, are passed over); each second's requests are
///   spread evenly at random over it
/// - times: a file of seconds, one a line as above, from the first on
/// - functions: Poisson, gamma or on-off processes; their rates fall with a
///   power of their rank, together of the rate
/// - refit: a gamma process of the wished cv at the rates of such a file
///
/// Surges and the daily swing multiply the rate by changing time, so that a
/// gamma process keeps the cv of its gaps in operational time (rate_shape).
/// Files begin at the part's offset and go on at their start after their end,
/// until each arrival was there once. `requests` gives exactly that many:
/// independent gaps are stretched, other processes are drawn at a higher rate
/// and thinned. `granularity` moves each arrival to the start of its period.
/// `scale` multiplies every rate; where it does not give whole numbers, chance
/// decides. Errors: bad_request with file and line, for what is out of range,
/// and over max_arrivals.
result<arrival_times> make_arrivals(const workload_part& x, microseconds length,
                                    random_stream random,
                                    std::vector<uint32_t>* function = nullptr);

} // namespace millrace
