// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/error.hpp"
#include "transport/messages/record.hpp"

namespace millrace {

/// Writes recorded decisions: one MessagePack value. Errors: unavailable with
/// the path.
result<void> write_decisions(const std::string& path,
                             const decision_records& x);

/// Reads recorded decisions. Errors: bad_request with the path for another kind
/// of file, or a file over 1 GiB.
result<decision_records> read_decisions(const std::string& path);

} // namespace millrace
