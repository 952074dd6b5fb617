// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/error.hpp"

namespace millrace::test {

/// The error text of a result for the message of a failed check. With
/// `--success` doctest also calls it for results without an error.
template <class T>
std::string why(const result<T>& x) {
  return x ? "no error" : to_string(x.failure());
}

} // namespace millrace::test
