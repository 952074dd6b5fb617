// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/bundle.hpp"
#include "transport/bulk/bulk.hpp"

namespace millrace {

/// A bundle as something that travels; its pieces are taken when this is made.
/// Errors: bad_request of one that cannot.
result<std::shared_ptr<bulk_content>>
make_bulk_content(std::shared_ptr<const bundle> x);

} // namespace millrace
