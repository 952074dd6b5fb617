// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Costs of work, as the profiler stores them. No actor handles: policies
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

/// Profiles of one model, measured or imported, each for a range of layers.
struct model_profiles {
  std::vector<profile> all;
  MILLRACE_FIELDS(model_profiles, all)
};

/// Moving averages of the replicas of one model.
struct model_averages {
  std::vector<live_cost> all;
  MILLRACE_FIELDS(model_averages, all)
};

/// Costs by model; actors/policies/state/costs.hpp has the queries. Immutable:
/// a change makes a book of a higher version that shares unchanged models.
struct cost_book {
  uint64_t version = 0;
  std::map<std::string, std::shared_ptr<const model_profiles>> profiles;
  std::map<std::string, std::shared_ptr<const model_averages>> averages;
};

} // namespace millrace
