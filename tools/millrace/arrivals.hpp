// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/random.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Points in time, from 0, at which an open loop submits requests.
using arrival_times = std::vector<microseconds>;

/// More than this are not held.
constexpr size_t max_arrivals = 100'000'000;

/// Poisson arrivals: exponential gaps of mean 1 / rate, for a time.
/// Errors: bad_request when the rate is no positive number, or there would be
/// more than max_arrivals.
result<arrival_times> poisson_arrivals(double per_second, microseconds length,
                                       random_stream random);

/// Reads a trace of requests per second, one whole number a line (a heading,
/// and columns before the last, are passed over), and spreads each second's
/// requests evenly at random over it. `scale` multiplies every rate; the
/// fraction is settled by chance. Files may be gzipped.
/// Errors: bad_request with file and line, for a scale that is no positive
/// number, and over max_arrivals.
result<arrival_times> trace_arrivals(const std::string& path, double scale,
                                     microseconds length, random_stream random);

} // namespace millrace
