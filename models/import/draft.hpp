// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/backend/backend.hpp"

namespace millrace {

/// A bundle in the making.
struct draft {
  std::shared_ptr<bundle> content; ///< as if it had been opened
  std::map<std::string, std::string>
    files; ///< to be written beside its manifest
};

/// A bundle of a model's parts, which are its layers. `info` is what is known
/// beside them; what they take by the names of forward's arguments they take by
/// those of its inputs.
/// Errors: bad_request for what no bundle can be made of.
result<draft> make_draft(manifest info, model_parts parts);

} // namespace millrace
