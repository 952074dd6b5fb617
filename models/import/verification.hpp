// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/backend/backend.hpp"

namespace millrace {

/// Runs a bundle on random inputs, as one stage and layer by layer: both have
/// to give the same results. If the bundle has samples, its outputs are also
/// compared with those at import. Returns whether it has samples.
/// Errors: the backend's; bad_config when the results differ.
result<bool> verify_by_running(backend& runner,
                               const std::shared_ptr<const bundle>& opened);

} // namespace millrace
