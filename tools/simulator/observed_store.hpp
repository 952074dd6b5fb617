// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/store/store.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// A node's store whose writes are told, when they are asked for and when the
/// store says how they went.
std::unique_ptr<store> observe_store(std::unique_ptr<store> inner,
                                     std::string node, watcher& seen_by);

} // namespace millrace::simulator
