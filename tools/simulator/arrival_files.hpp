// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/random.hpp"
#include "simulator/arrivals.hpp"

namespace millrace {

/// More than max_arrivals would be there.
error too_many_arrivals();

/// The rates of the part's file, a number per second from the part's offset on,
/// multiplied by its scale, or so that the highest rate is its peak. Errors:
/// bad_request with file and line.
result<std::vector<double>> rates_of_file(const workload_part& x);

/// Arrivals of a file of rates. Errors: as rates_of_file, and over
/// max_arrivals.
result<arrival_times> by_rates(const workload_part& x, microseconds length,
                               random_stream& random);

/// Arrivals of a file of times; errors likewise.
result<arrival_times> by_times(const workload_part& x, random_stream& random);

} // namespace millrace
