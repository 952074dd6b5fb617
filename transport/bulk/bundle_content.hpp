// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/bundle.hpp"
#include "transport/bulk/bulk.hpp"

namespace millrace {

/// A bundle as something that travels; its pieces are taken when this is made.
/// Where it is used as it lies on the disk each chunk is verified once more
/// before it is given; should one be wrong the bundle is given up, and
/// `tell_broken` is called, on any thread. Errors: bad_request of one that
/// cannot travel.
result<std::shared_ptr<bulk_content>>
make_bulk_content(std::shared_ptr<const bundle> x,
                  std::function<void(const error&)> tell_broken);

} // namespace millrace
