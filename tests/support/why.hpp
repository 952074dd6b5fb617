// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/error.hpp"

namespace millrace::test {

/// What a test says of a result, should it fail; with `--success` doctest asks
/// for it where there is no error, too.
template <class T>
std::string why(const result<T>& x) {
  return x ? "no error" : to_string(x.failure());
}

} // namespace millrace::test
