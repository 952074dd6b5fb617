// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/contention/measured.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// The origin of moving averages.
inline constexpr auto live_origin = "live";

/// A cost and its origin: "live" (moving averages of replicas), "profile of
/// SOURCE" (measured or imported), or "profile of SOURCE, corrected" (a profile
/// scaled by moving averages).
struct cost_value {
  double value = 0;
  std::string origin;
};

/// Layers of a model and the device that runs them.
struct cost_query {
  const model_info* model;
  layer_range layers;
  std::string device; ///< kind
  double share = 0;   ///< fraction of the device; 0: the whole device
  uint64_t threads = 1;
};

/// Execution time of a batch of `batch` rows, in seconds. A profile gives the
/// shape of the curve, and the moving average of replicas scales the curve.
/// Without a profile the average holds up to the average batch size and grows
/// in proportion beyond. Nothing when the book is null or has no entry.
std::optional<cost_value>
execution_seconds(const cost_book* book, const cost_query& query, double batch);

/// Execution time of one row in some layers, in seconds, on the slowest kind of
/// device in the book. Only the kind in the settings counts when the settings
/// name one. Nothing without an entry.
std::optional<cost_value> slowest_execution(const cost_book* book,
                                            const model_state& model,
                                            const layer_range& layers);

/// The same in a whole replica.
std::optional<cost_value> slowest_execution(const cost_book* book,
                                            const model_state& model);

/// Execution time of one row in each layer, in seconds, from a profile with all
/// layers of the model. Uses the kind of device in the settings if the profile
/// has it, else the slowest kind. Nothing without such a profile.
std::optional<std::vector<double>> layer_seconds(const cost_book* book,
                                                 const model_state& model);

/// A metric of a profile by its name, without the correction by moving
/// averages, for policies that model interference themselves. Nothing without
/// an entry.
std::optional<cost_value> profiled(const cost_book* book,
                                   const cost_query& query,
                                   const std::string& metric, double batch);

/// The batch sizes for which a profile has a metric, for a whole model on the
/// whole device, ascending.
std::vector<double> profiled_batches(const cost_book* book,
                                     const cost_query& query,
                                     const std::string& metric);

/// Memory of a replica that runs batches of `batch` rows, in bytes: parameters
/// and activations, from a profile.
std::optional<cost_value> memory_bytes(const cost_book* book,
                                       const cost_query& query, double batch);

/// Memory of a batch of `batch` rows in addition to the parameters, in bytes,
/// from a profile. Nothing without an entry.
std::optional<cost_value>
activation_bytes(const cost_book* book, const cost_query& query, double batch);

/// How batches of a model slow each other down on a kind of device, from
/// execution times of a profile with several batches at once (dimension
/// `at_once`). Nothing if only single batches were measured.
std::optional<measured_contention> contention_of(const cost_book* book,
                                                 const cost_query& query);

/// Steps of a start with the bundle at `source` (disk, memory, hosts or
/// stores): moving averages over starts from that source, else load and warm-up
/// time of a profile with a fetch time of 0.
struct start_cost {
  double fetch = 0; ///< seconds
  double load = 0;
  double warm_up = 0;
  std::string origin;
};
std::optional<start_cost> start_seconds(const cost_book* book,
                                        const cost_query& query,
                                        const std::string& source);

} // namespace millrace
