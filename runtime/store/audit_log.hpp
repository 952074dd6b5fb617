// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace {

/// What is kept of who did what to a node: operators' orders, and what was
/// refused. Lines are written within moments by a thread of its own; what a
/// storm of refusals would add beyond some a second is counted instead.
class audit_log {
public:
  virtual ~audit_log() = default;

  /// Something that had effect. Any thread, returns at once.
  virtual void order(std::string line) = 0;

  /// Something that was refused.
  virtual void refusal(std::string line) = 0;
};

/// The folder of a data directory with its audit log.
std::string audit_directory(const std::string& data);

/// A node's, in its data directory. Errors: unavailable; bad_config when
/// another process writes there.
result<std::unique_ptr<audit_log>> open_audit_log(const std::string& data);

} // namespace millrace
