// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/node/health.hpp"
#include "models/device/device.hpp"
#include "runtime/store/store.hpp"

namespace millrace {

/// Raises a durable counter by one, or to `least` if that is higher, and
/// returns the new value, such as the number of a start. Blocks on the store.
/// Errors: as the store.
result<uint64_t> count_up(store& facts, const std::string& table,
                          const std::string& key, uint64_t least = 0);

/// The crash journal's name in a node's data directory.
constexpr auto crash_file = "running-models";

/// Reads which model crashed the previous process, adds that crash to the
/// durable counts, and returns all counts. Called once per process. Errors: as
/// the store and open_crash_journal.
result<crash_counts> count_crashes(const std::string& journal, store& facts);

/// Adds a trouble to the node's status for each model that no longer runs in
/// threads of the node.
void report_crashes(const crash_counts& counts, health& state);

} // namespace millrace
