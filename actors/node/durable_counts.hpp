// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/node/health.hpp"
#include "models/device/device.hpp"
#include "runtime/store/store.hpp"

namespace millrace {

/// Raises a durable counter by one, or to `least`, and returns it: the number
/// of a start. Waits for the store. Errors: the store's.
result<uint64_t> count_up(store& facts, const std::string& table,
                          const std::string& key, uint64_t least = 0);

/// The crash journal's name in a node's data directory.
constexpr auto crash_file = "running-models";

/// Reads which model ended the process before this one, counts that durably,
/// and returns all counts. Called once in a process. Errors: the store's,
/// open_crash_journal's.
result<crash_counts> count_crashes(const std::string& journal, store& facts);

/// Shows each model that the node no longer runs in its threads in the node's
/// status.
void report_crashes(const crash_counts& counts, health& state);

} // namespace millrace
