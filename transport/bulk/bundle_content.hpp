// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/bundle.hpp"
#include "transport/bulk/bulk.hpp"

namespace millrace {

/// A bundle as a transferable content; the pieces of its head are read here. A
/// chunk that is read from the disk is verified again before it is served.
/// After a wrong chunk the content serves nothing more, and `tell_broken` is
/// called, on any thread. Errors: bad_request for a bundle that cannot be
/// transferred.
result<std::shared_ptr<bulk_content>>
make_bulk_content(std::shared_ptr<const bundle> opened,
                  std::function<void(const error&)> tell_broken);

} // namespace millrace
