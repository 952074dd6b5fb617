// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/store.hpp"
#include "runtime/virtual/world.hpp"

namespace millrace {

/// A host's disk in the simulated world: what was written stays when the
/// process that wrote it does not.
class virtual_disk {
public:
  using table = std::map<std::string, stored_row>;

  table& operator[](const std::string& name) { return tables_[name]; }

  /// Raises a durable counter by one, or to `least`, and returns it.
  uint64_t count_up(const std::string& table, const std::string& key,
                    uint64_t least = 0);

  void wipe() { tables_.clear(); }

private:
  std::map<std::string, table> tables_;
};

/// A process's store on a disk; each call takes some time.
std::unique_ptr<store> open_virtual_store(virtual_process& process,
                                          std::shared_ptr<virtual_disk> disk,
                                          microseconds takes);

} // namespace millrace
