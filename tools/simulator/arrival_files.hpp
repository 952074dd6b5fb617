// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/random.hpp"
#include "simulator/arrivals.hpp"

namespace millrace {

/// The error for more than max_arrivals arrivals.
error too_many_arrivals();

/// The rates of the part's file: one number per second from the part's offset
/// on, multiplied by the part's scale, or scaled so that the highest rate is
/// the part's peak. Errors: bad_request with file and line.
result<std::vector<double>> rates_of_file(const workload_part& part);

/// Arrivals of a file of rates. Errors: as rates_of_file, and over
/// max_arrivals.
result<arrival_times> by_rates(const workload_part& part, microseconds length,
                               random_stream& random);

/// Arrivals of a file of times. Errors: as by_rates.
result<arrival_times> by_times(const workload_part& part,
                               random_stream& random);

} // namespace millrace
