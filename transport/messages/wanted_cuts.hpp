// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/partition/cuts.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// The cuts that a model's settings request.
inline cut_wish wanted_cuts(const model_settings& settings) {
  return {settings.parts, settings.cuts, settings.replicas_of_parts,
          settings.replicas};
}

} // namespace millrace
