// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

#include "runtime/string_map.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Who said what they may not: three times within ten seconds, and a key is
/// not listened to for a minute. Only for known names, so it holds as many
/// entries as there are keys at most. Pure: time comes in.
class misconduct {
public:
  static constexpr size_t allowed = 3;
  static constexpr microseconds window{10'000'000};
  static constexpr microseconds sentence{60'000'000};

  /// Notes one offence. Returns whether it is the one that suspends the key.
  bool offends(std::string_view name, timestamp now);

  bool suspended(std::string_view name, timestamp now) const;

private:
  struct record {
    std::array<timestamp, allowed> last{}; ///< offences, in turn
    size_t count = 0;
    timestamp until{}; ///< of the suspension
  };

  string_map<record> records_;
};

} // namespace millrace
