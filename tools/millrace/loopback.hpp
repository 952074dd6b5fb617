// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <netinet/in.h>

#include "runtime/error.hpp"

namespace millrace {

/// A listening TCP socket on a loopback port that was free. Errors: unavailable
/// with what the system says.
result<std::pair<int, sockaddr_in>> listen_anywhere();

/// A loopback address that nobody uses now, for a process that binds it:
/// tcp://127.0.0.1:PORT. Errors as above.
result<std::string> free_address();

} // namespace millrace
