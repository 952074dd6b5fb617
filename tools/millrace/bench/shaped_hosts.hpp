// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/error.hpp"

/// \file
/// The hosts that tests/bench/shaped_hosts makes, and what bare programs reach
/// between them: the floors of benches.

namespace millrace {

/// The network namespace of one, a file.
std::string space_of(size_t host);

std::string address_of(size_t host);

/// Such hosts, as long as this lives.
class shaped_hosts {
public:
  /// So many, by that script, with links of so many Mbit/s.
  /// Errors: unavailable.
  static result<std::unique_ptr<shaped_hosts>>
  make(const std::string& script, size_t count, uint64_t mbit);
  ~shaped_hosts();

private:
  explicit shaped_hosts(std::string script) : script_(std::move(script)) {}

  std::string script_;
};

/// What a plain TCP connection carries from host 0 to host 1, in bytes a
/// second. Errors: unavailable.
result<double> plain_rate(uint64_t bytes);

/// What a program on host 1 takes that passes on what comes from host 0 to host
/// 2, by splice(2): seconds of processor time for each byte.
/// Errors: unavailable.
result<double> plain_relay_cost(uint64_t bytes);

} // namespace millrace
