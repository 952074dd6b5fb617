// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/error.hpp"
#include "transport/messages/record.hpp"

namespace millrace {

/// Writes recorded decisions: one MessagePack value. Errors: unavailable with
/// the path.
result<void> write_decisions(const std::string& path,
                             const decision_records& records);

/// Reads recorded decisions. Errors: bad_request with the path for a file of
/// another kind or over 1 GiB.
result<decision_records> read_decisions(const std::string& path);

} // namespace millrace
