// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transport/objects/settings.hpp"

namespace millrace {

/// By which S3 knows who asks.
struct s3_credentials {
  std::string id; ///< empty: nobody in particular
  std::string secret;
  std::string session; ///< of those that are lent for a while
  std::string from;    ///< where they are from, for errors
};

/// Those of a store: of its file, else of this process's environment.
/// Errors: unavailable, where the file cannot be read; bad_config, where it
/// says nothing of [default].
result<s3_credentials> find_credentials(const object_store_config& x);

} // namespace millrace
