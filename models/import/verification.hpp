// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/backend/backend.hpp"

namespace millrace {

/// Runs a bundle on random inputs, as one stage and with each layer as one of
/// its own: both have to compute the same; and what the whole model made of its
/// samples when it was imported, where the bundle has such. Returns whether it
/// has.
/// Errors: the backend's; bad_config when the results differ.
result<bool> verify_by_running(backend& runner,
                               const std::shared_ptr<const bundle>& x);

} // namespace millrace
