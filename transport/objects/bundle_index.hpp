// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "transport/messages/model.hpp"
#include "transport/objects/object_store.hpp"

namespace millrace {

/// What an object store has, in a file of its own: web servers list no folders.
struct bundle_index {
  std::vector<model_info> models;
  MILLRACE_FIELDS(bundle_index, models)
};

inline constexpr const char* index_file = "index.yaml";

std::string print_index(const bundle_index& x);

/// Errors: bad_config, with line and key, also where a name leads elsewhere;
/// `file` is how they name it.
result<bundle_index> parse_index(const std::string& text,
                                 const std::string& file);

/// Where a bundle is in a store, or in a folder of bundles.
std::string folder_of(const model_info& x);

/// Reads the index of a store. Calls back on the store's thread.
/// Errors: as the store's, and parse_index's.
void read_index(object_store& from,
                std::function<void(result<bundle_index>)> done);

} // namespace millrace
