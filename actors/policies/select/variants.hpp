// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// The properties of a served model that the choice of a model uses.
struct variant_view {
  std::string model;
  uint64_t version = 0;
  std::string application;
  std::vector<std::string> aliases;
  std::optional<double> accuracy;
  microseconds latency{0}; ///< moving average; 0: unknown
  bool ready = false;      ///< its replicas can answer
  bool waits = false;      ///< a replica is started when a request comes
};

/// Requirements of a request.
struct selection_request {
  std::string model;
  std::string version; ///< a number or an alias; empty: default, else newest
  std::string application;
  std::optional<double> accuracy{};      ///< of the variant, at least
  std::optional<microseconds> latency{}; ///< of the variant, at most
};

/// Returns the index of the model that answers a request.
///
/// - A request with a model gets the requested version (a number or an alias;
///   else the alias "default", else the newest version). Models without a
///   replica come last.
/// - A request with an application gets the ready variant of lowest latency
///   that meets the required accuracy and latency.
///
/// Errors: unknown_model, with the served models; unavailable when no suitable
/// variant is ready; bad_request when the request has neither.
result<size_t> choose_variant(const std::vector<variant_view>& xs,
                              const selection_request& wanted);

} // namespace millrace
