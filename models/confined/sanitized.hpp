// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace::confined {

/// Whether a sanitizer is compiled in: sanitizers map terabytes of shadow
/// memory, read /proc, and report on stderr.
#if defined(MILLRACE_SANITIZED_ADDRESS) || defined(MILLRACE_SANITIZED_THREAD)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

} // namespace millrace::confined
