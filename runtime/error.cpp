// SPDX-License-Identifier: Apache-2.0
#include "runtime/error.hpp"

#include <cstdio>
#include <cstdlib>

namespace millrace {

error error::within(std::string_view where) && {
  text = std::string{where} + ": " + text;
  return std::move(*this);
}

std::string to_string(const error& failure) {
  auto out = std::string{to_string(failure.code)};
  if (!failure.text.empty())
    out += ": " + failure.text;
  return out;
}

void assertion_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "millrace: assertion failed: %s (%s:%d)\n", what, file,
               line);
  std::abort();
}

} // namespace millrace
