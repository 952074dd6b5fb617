// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/store/fact_journal.hpp"
#include "runtime/virtual/world.hpp"

namespace millrace {

/// A process's store in the simulated world: the production journal. A write
/// is on its way to the disk at once, and synced when it has taken its time.
std::unique_ptr<store> make_virtual_store(virtual_process& process,
                                          std::unique_ptr<fact_journal> facts,
                                          microseconds takes);

} // namespace millrace
