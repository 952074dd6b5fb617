// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace::confined {

/// Whether a sanitizer is compiled in: these map terabytes of shadow, look at
/// /proc and say on stderr what they found.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

} // namespace millrace::confined
