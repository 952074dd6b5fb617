// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

/// Prints what does not hold and ends the process.
[[noreturn]] void assertion_failed(const char* what, const char* file,
                                   int line);

} // namespace millrace

/// For our own bugs only; stays on in release builds. Input must never be able
/// to reach a false one.
#define MILLRACE_ASSERT(what)                                                  \
  (static_cast<bool>(what)                                                     \
     ? static_cast<void>(0)                                                    \
     : ::millrace::assertion_failed(#what, __FILE__, __LINE__))
