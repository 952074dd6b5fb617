// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace millrace {

/// A CURVE key pair (RFC 26/CurveZMQ), both halves as 40 characters of Z85.
struct key_pair {
  std::string public_key;
  std::string secret_key;
};

/// Makes a new pair from the system's random source.
key_pair make_key_pair();

/// Whether the secret key belongs to the public key.
bool belong_together(const key_pair& keys);

} // namespace millrace
