// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "actors/policies/state/cluster_view.hpp"

namespace millrace {

/// The message to gateways about a served model, without its note.
wanted_model announcement_of(const model_state& model);

/// Why no node has the wanted version of a model.
std::string why_nowhere(const cluster_view& view,
                        const model_settings& settings);

} // namespace millrace
