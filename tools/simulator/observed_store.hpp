// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/store/store.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// Wraps a node's store: reports each write to the watcher, first when the
/// write is requested, then with its result.
std::unique_ptr<store> observe_store(std::unique_ptr<store> inner,
                                     std::string node, watcher& seen_by);

} // namespace millrace::simulator
