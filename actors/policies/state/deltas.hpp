// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/error.hpp"
#include "transport/messages/record.hpp"

namespace millrace {

/// The delta from one snapshot to another; all of `after` when `before` is
/// null. Shared parts are compared by pointer, other parts by content.
snapshot_delta difference(const cluster_snapshot* before,
                          const cluster_snapshot& after);

/// Applies a delta. Unchanged parts are shared with `before`. Errors:
/// bad_request when the delta belongs to another snapshot than `before`, or
/// needs one while `before` is null.
result<cluster_snapshot> apply(const cluster_snapshot* before,
                               const snapshot_delta& delta);

} // namespace millrace
