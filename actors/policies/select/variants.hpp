// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// A served model as far as choosing among models needs it.
struct variant_view {
  std::string model;
  uint64_t version = 0;
  std::string application;
  std::vector<std::string> aliases;
  std::optional<double> accuracy;
  microseconds latency{0}; ///< moving average; 0: not known yet
  bool ready = false;      ///< its replicas can answer
  bool waits = false;      ///< a replica is started when a request comes
};

/// What a request asks for.
struct selection_request {
  std::string model;
  std::string version; ///< a number or an alias; empty: default, else newest
  std::string application;
  std::optional<double> accuracy{};      ///< of the variant, at least
  std::optional<microseconds> latency{}; ///< of the variant, at most
};

/// Which of the served models answers a request: the one it names, in the
/// version it names (a number or an alias; else what "default" means, else the
/// newest), with those that have no replica coming last; or the quickest ready
/// variant of the application it names that is accurate and quick enough.
/// Stands in for INFaaS's selection until that moves in. Errors: unknown_model,
/// saying what there is; unavailable when no variant that would do is ready;
/// bad_request when it names neither.
result<size_t> choose_variant(const std::vector<variant_view>& xs,
                              const selection_request& wanted);

} // namespace millrace
