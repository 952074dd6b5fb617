// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transport/objects/settings.hpp"

namespace millrace {

/// Credentials that sign requests to S3.
struct s3_credentials {
  std::string id; ///< empty: requests are not signed
  std::string secret;
  std::string session; ///< token of temporary credentials
  std::string from;    ///< source of the credentials, for errors
};

/// Reads the credentials of a store: from its file, else from the environment.
/// Errors: unavailable if the file cannot be read; bad_config if it has no
/// section [default].
result<s3_credentials> find_credentials(const object_store_config& settings);

} // namespace millrace
