// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/backend/backend.hpp"

namespace millrace {

/// A bundle under construction.
struct draft {
  /// The bundle as if it had been opened.
  std::shared_ptr<bundle> content;
  /// Files to write besides the manifest.
  std::map<std::string, std::string> files;
  /// Bytes of shared parameters that are stored more than once: otherwise a
  /// part that needs them would have to load the layers between.
  uint64_t copied = 0;
};

/// Creates a bundle with a model's parts as layers. `info` has the other fields
/// of the manifest; inputs of layers are renamed from forward's arguments to
/// its signature's.
/// Errors: bad_request for invalid parts.
result<draft> make_draft(manifest info, model_parts parts);

/// Adds a file of tensors; returns its manifest entry.
tensors_info add_tensors(draft& to, const std::string& file, std::string text);

} // namespace millrace
