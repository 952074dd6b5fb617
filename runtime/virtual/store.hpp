// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/store/fact_journal.hpp"
#include "runtime/virtual/world.hpp"

namespace millrace {

/// Creates a process's store in the simulated world, on the production journal.
/// A write is appended at once, and synced after `takes`.
std::unique_ptr<store> make_virtual_store(virtual_process& process,
                                          std::unique_ptr<fact_journal> facts,
                                          microseconds takes);

} // namespace millrace
