// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "transport/messages/snapshot.hpp"

namespace millrace {

/// A cost, and where it comes from: "live" for moving averages of replicas,
/// "profile of SOURCE" for what was measured or imported, "profile of SOURCE,
/// corrected" for a profile scaled by what replicas took.
struct cost_value {
  double value = 0;
  std::string origin;
};

/// What some layers of a model run on.
struct cost_query {
  const model_info* model;
  layer_range layers;
  std::string device; ///< kind
  double share = 0;   ///< part of the device; 0: all of it
  uint64_t threads = 1;
};

/// Seconds that a batch of so many rows takes. A profile gives the form of the
/// curve; where replicas have run at this share and number of threads, their
/// average scales it. Without a profile the average holds for the batches that
/// it was taken of, and in proportion to rows beside these. Nothing where
/// neither is known, or the book is null.
std::optional<cost_value> execution_seconds(const cost_book* book,
                                            const cost_query& x, double batch);

/// Seconds that one row takes in a whole replica, on the slowest kind of device
/// that the book knows and that the settings of the model admit, if they name a
/// kind. Nothing where the book knows none.
std::optional<cost_value> slowest_execution(const cost_book* book,
                                            const model_state& x);

/// Bytes that a replica takes while it runs batches of so many rows: parameters
/// and activations, of a profile.
std::optional<cost_value> memory_bytes(const cost_book* book,
                                       const cost_query& x, double batch);

/// What a start takes whose bundle is at `source` (disk, memory, hosts or
/// stores), step by step: averages over such starts, else load and warm-up of a
/// profile, without a time to fetch.
struct start_cost {
  double fetch = 0; ///< seconds
  double load = 0;
  double warm_up = 0;
  std::string origin;
};
std::optional<start_cost> start_seconds(const cost_book* book,
                                        const cost_query& x,
                                        const std::string& source);

} // namespace millrace
