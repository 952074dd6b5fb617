// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "transport/messages/model.hpp"
#include "transport/objects/object_store.hpp"

namespace millrace {

/// The bundles of an object store, listed in a file: web servers list no
/// folders.
struct bundle_index {
  std::vector<model_info> models;
  MILLRACE_FIELDS(bundle_index, models)
};

inline constexpr const char* index_file = "index.yaml";

std::string print_index(const bundle_index& index);

/// Errors: bad_config with line and key, also for a name that leads out of the
/// store; `file` is the name used in errors.
result<bundle_index> parse_index(const std::string& text,
                                 const std::string& file);

/// Folder of a bundle in a store, or in a folder of bundles.
std::string folder_of(const model_info& model);

/// Reads the index of a store. Calls back on the store's thread. Errors: those
/// of the store and of parse_index.
void read_index(object_store& from,
                std::function<void(result<bundle_index>)> done);

} // namespace millrace
