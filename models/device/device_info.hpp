// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/device/sharing.hpp"
#include "runtime/fields.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// Description of a device by its node. The id is stable across restarts of the
/// node.
struct device_info {
  std::string id;           ///< "cpu0": unique on its node
  std::string kind;         ///< of the catalogue: what profiles are keyed by
  uint32_t lanes = 1;       ///< executions that may run at once
  byte_count memory;        ///< what replicas may take in all; 0: unknown
  device_sharing sharing{}; ///< in force
  bool ordered = false;     ///< by a controller: the config has another sharing
  /// Units that replicas may take in all: cores of a host, percent of a GPU's
  /// multiprocessors, cores of an accelerator. 0: not limited.
  uint64_t units = 0;
  MILLRACE_FIELDS(device_info, id, kind, lanes, memory, sharing, ordered, units)
};

/// Whether a selector (an id, a kind or NODE/ID) names a device of a node.
inline bool selects_device(std::string_view selector, std::string_view node,
                           std::string_view id, std::string_view kind) {
  return selector == id || selector == kind
         || (selector.size() == node.size() + 1 + id.size()
             && selector.starts_with(node) && selector[node.size()] == '/'
             && selector.ends_with(id));
}

inline bool selects_device(std::string_view selector, std::string_view node,
                           const device_info& device) {
  return selects_device(selector, node, device.id, device.kind);
}

} // namespace millrace
