// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/backend/backend.hpp"

namespace millrace {

/// A bundle in the making.
struct draft {
  /// As if it had been opened.
  std::shared_ptr<bundle> content;
  /// To be written beside its manifest.
  std::map<std::string, std::string> files;
  /// Bytes of parameters that layers share and that are stored more than once:
  /// the layers between would have to be loaded with a part that needs them.
  uint64_t copied = 0;
};

/// A bundle of a model's parts, which are its layers. `info` is what is known
/// beside them; what they take by the names of forward's arguments they take by
/// those of its inputs.
/// Errors: bad_request for what no bundle can be made of.
result<draft> make_draft(manifest info, model_parts parts);

/// Adds a file of tensors; returns what its manifest is to say of it.
tensors_info add_tensors(draft& x, const std::string& file, std::string text);

} // namespace millrace
