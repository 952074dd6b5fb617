// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/partition/cuts.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// How a model's settings want it cut.
inline cut_wish wanted_cuts(const model_settings& x) {
  return {x.parts, x.cuts, x.replicas_of_parts, x.replicas};
}

} // namespace millrace
