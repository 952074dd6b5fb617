// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What work costs, as the profiler knows it. No actor handles: policies
/// include this file.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/profile.hpp"
#include "runtime/fields.hpp"
#include "transport/messages/profile.hpp"

namespace millrace {

/// Profiles of one model, measured or imported, each of some layers.
struct model_profiles {
  std::vector<profile> all;
  MILLRACE_FIELDS(model_profiles, all)
};

/// Moving averages of the replicas of one model.
struct model_averages {
  std::vector<live_cost> all;
  MILLRACE_FIELDS(model_averages, all)
};

/// Costs of all models that anything is known of, by model; see
/// actors/policies/state/costs.hpp. Immutable: a change is a new book with a
/// higher version, which shares what has not changed.
struct cost_book {
  uint64_t version = 0;
  std::map<std::string, std::shared_ptr<const model_profiles>> profiles;
  std::map<std::string, std::shared_ptr<const model_averages>> averages;
};

} // namespace millrace
