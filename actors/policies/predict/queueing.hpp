// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// A queue with several equal servers.
struct queueing_station {
  double arrivals = 0;   ///< requests per second
  double service = 0;    ///< seconds per request and server
  uint64_t servers = 1;  ///< at least 1
  double arrival_cv = 1; ///< coefficient of variation of inter-arrival times
  double service_cv = 1; ///< the same for service times
  uint64_t waiting = 0;  ///< requests in the queue now
  double saturated = 0;  ///< seconds, least delay without capacity
  double offered() const { return arrivals * service; }
};

/// How the mean delay of a station, wait and service, is computed.
enum class delay_formula : uint8_t {
  erlang_c,      ///< M/M/c: Poisson arrivals, exponential service
  allen_cunneen, ///< G/G/c: the wait of M/M/c times (c_a^2 + c_s^2) / 2
  printed        ///< QUART, equation 1, as it is printed
};

constexpr auto names_of(delay_formula) {
  return name_table{"erlang_c", "allen_cunneen", "printed"};
}

/// The probability that all servers of an M/M/c queue are busy (Erlang's second
/// formula), by the recursion of the first: exact for any number of servers.
/// `offered` is the load in servers; 1 where it is at least `servers`.
double erlang_c(double offered, uint64_t servers);

/// The probability that an M/M/c queue is empty; 0 without capacity.
double empty_probability(double offered, uint64_t servers);

/// Mean delay in seconds. QUART, equation 1, uses the probability P_0 of an
/// empty system where the M/M/c delay has Erlang's C, and so stays bounded at
/// full load; `printed` is that reading. A station without capacity has no mean
/// delay: then the result is the fluid estimate waiting x service / servers +
/// service, at least `saturated`, for every formula.
double mean_delay(const queueing_station& station, delay_formula by);

/// The fewest servers with a mean delay of at most `target` seconds; `most`
/// when no smaller number suffices.
uint64_t servers_for(queueing_station station, delay_formula by, double target,
                     uint64_t most);

} // namespace millrace
