// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <netinet/in.h>

#include "runtime/error.hpp"

namespace millrace {

/// A listening TCP socket on a free loopback port. Errors: unavailable with the
/// system's error text.
result<std::pair<int, sockaddr_in>> listen_anywhere();

/// An unused loopback address tcp://127.0.0.1:PORT for another process to bind.
/// Errors: as listen_anywhere.
result<std::string> free_address();

} // namespace millrace
