// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/error.hpp"
#include "transport/messages/record.hpp"

namespace millrace {

/// The delta from one snapshot to another; all of `after` when `before` is
/// null. Shared parts cost a comparison of pointers, other parts of contents.
snapshot_delta difference(const cluster_snapshot* before,
                          const cluster_snapshot& after);

/// The snapshot after a delta. Parts that have not changed are shared with
/// `before`. Errors: bad_request when the delta changes another snapshot than
/// `before`, or one while `before` is null.
result<cluster_snapshot> apply(const cluster_snapshot* before,
                               const snapshot_delta& x);

} // namespace millrace
