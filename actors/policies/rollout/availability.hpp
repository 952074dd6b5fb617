// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "actors/policies/state/cluster_view.hpp"

namespace millrace {

/// What gateways are sent of a model that is to be served, but for its note.
wanted_model announcement_of(const model_state& x);

/// Why no node has the version of a model that is wanted.
std::string why_nowhere(const cluster_view& view, const model_settings& x);

} // namespace millrace
