// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Demand: counters that gateways report to controllers. No actor handles:
/// policies include this file.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/time.hpp"
#include "transport/messages/load.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// Counters of ok batches of a model at one stage, since the gateway's start.
struct stage_counters {
  layer_range layers;    ///< of the stage; {0, 0}: whole replicas
  uint64_t requests = 0; ///< in these batches
  moments waits; ///< waiting times of batches, in seconds; at the first stage
                 ///< in the router's queue
  moments runs;  ///< execution times of batches, in seconds
  double waited = 0; ///< waiting time in seconds, summed over all requests
  MILLRACE_FIELDS(stage_counters, layers, requests, waits, runs, waited)
};

/// Arrivals in the last bins of a gateway, so that a lost report costs no
/// resolution. Bin n counts arrivals from n * length to (n + 1) * length after
/// the gateway's start.
struct arrival_bins {
  static constexpr microseconds length{100'000};
  static constexpr size_t most = 64;
  uint64_t first = 0;           ///< number of the first bin
  std::vector<uint64_t> counts; ///< empty: no arrival in the last bins
  MILLRACE_FIELDS(arrival_bins, first, counts)
};

/// Durations, counted in bins: four for each doubling from 1 us on, so that a
/// quantile read from the bins is wrong by a quarter at most
/// (actors/policies/state/duration_bins.hpp).
struct duration_bins {
  static constexpr size_t most = 160; ///< the last bin: longer than 9 days
  uint64_t first = 0;                 ///< number of the first bin
  std::vector<uint64_t> counts;       ///< empty: no duration yet
  MILLRACE_FIELDS(duration_bins, first, counts)
};

/// Demand for one model at one gateway. Counters run since the gateway's start,
/// so that a lost report loses no data.
struct model_counters {
  std::string model;
  uint64_t arrived = 0;      ///< requests that named the model or a variant
  uint64_t rows = 0;         ///< of their inputs
  uint64_t ok = 0;           ///< answered ok
  uint64_t within = 0;       ///< of these, within the SLO
  uint64_t late = 0;         ///< answered deadline_exceeded
  uint64_t overloaded = 0;   ///< answered overloaded
  uint64_t unavailable = 0;  ///< answered unavailable
  uint64_t failed = 0;       ///< answered with another error, or cancelled
  moments gaps;              ///< between arrivals
  moments waits;             ///< from arrival to execution, of ok answers
  double device_seconds = 0; ///< execution time of ok batches, all stages
  uint64_t executed = 0;     ///< requests in these batches
  std::vector<stage_counters> stages; ///< by layers
  arrival_bins bins;
  duration_bins latencies; ///< from arrival to answer, of ok answers
  // Gauges.
  uint64_t waiting = 0;   ///< requests that no replica has
  microseconds oldest{0}; ///< since the first of these arrived
  MILLRACE_FIELDS(model_counters, model, arrived, rows, ok, within, late,
                  overloaded, unavailable, failed, gaps, waits, device_seconds,
                  executed, stages, bins, latencies, waiting, oldest)
};

/// Gateway to every controller, once per period, one-way: the models with
/// changed counters since the last report, and every few seconds all models.
struct demand_report {
  std::string node;         ///< of the gateway
  uint64_t incarnation = 0; ///< of the node
  uint64_t life = 0; ///< counts the gateway's starts within the incarnation;
                     ///< counters restart at 0
  uint64_t sequence = 0; ///< of this report, from 1
  microseconds end{0};   ///< end of the counted time, since the gateway's start
  std::vector<model_counters> models;
  MILLRACE_FIELDS(demand_report, node, incarnation, life, sequence, end, models)
};

/// Gateway to every controller: requests wait for a model without a ready
/// replica. Sent for the first such request, then once per period.
struct pressure {
  std::string model;
  MILLRACE_FIELDS(pressure, model)
};

/// How demand is reported.
struct demand_settings {
  microseconds period{250'000};
  MILLRACE_FIELDS(demand_settings, period)
  static constexpr auto notes() {
    return std::array{
      note{"how often gateways report the demand for each model to controllers;"
           " 0: never, and then only fixed numbers of replicas can be kept",
           0, 60}};
  }
};

} // namespace millrace
