// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/error.hpp"

/// \file
/// The hosts made by tests/bench/shaped_hosts, and the speed of bare programs
/// between them: floors of benches.

namespace millrace {

/// The file of a host's network namespace.
std::string space_of(size_t host);

std::string address_of(size_t host);

/// Makes the hosts; the destructor removes them.
class shaped_hosts {
public:
  /// Makes `count` hosts with links of `mbit` Mbit/s. Errors: unavailable.
  static result<std::unique_ptr<shaped_hosts>>
  make(const std::string& script, size_t count, uint64_t mbit);
  ~shaped_hosts();

private:
  explicit shaped_hosts(std::string script) : script_(std::move(script)) {}

  std::string script_;
};

/// Bytes per second of a plain TCP connection from host 0 to host 1. Errors:
/// unavailable.
result<double> plain_rate(uint64_t bytes);

/// Processor seconds per byte of a bare relay by splice(2) on host 1, from host
/// 0 to host 2. Errors: unavailable.
result<double> plain_relay_cost(uint64_t bytes);

} // namespace millrace
