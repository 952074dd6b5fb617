// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace::confined {

/// Whether a sanitizer is compiled in: these map terabytes of shadow, look at
/// /proc and say on stderr what they found.
#if defined(MILLRACE_SANITIZED_ADDRESS) || defined(MILLRACE_SANITIZED_THREAD)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

} // namespace millrace::confined
