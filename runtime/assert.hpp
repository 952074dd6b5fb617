// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

/// Prints the failed condition and ends the process.
[[noreturn]] void assertion_failed(const char* what, const char* file,
                                   int line);

} // namespace millrace

/// Checks an invariant; stays on in release builds. For our own bugs only: no
/// input may make the condition false.
#define MILLRACE_ASSERT(what)                                                  \
  (static_cast<bool>(what)                                                     \
     ? static_cast<void>(0)                                                    \
     : ::millrace::assertion_failed(#what, __FILE__, __LINE__))
