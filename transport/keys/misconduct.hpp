// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

#include "runtime/string_map.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Suspends keys that send forbidden messages: after three offences within ten
/// seconds, for a minute. Only names from the key list are recorded, which
/// bounds the number of entries. Pure: time is a parameter.
class misconduct {
public:
  static constexpr size_t allowed = 3;
  static constexpr microseconds window{10'000'000};
  static constexpr microseconds sentence{60'000'000};

  /// Records an offence. Returns whether it suspends the key.
  bool offends(std::string_view name, timestamp now);

  bool suspended(std::string_view name, timestamp now) const;

private:
  struct record {
    /// Times of the last offences, as a ring.
    std::array<timestamp, allowed> last{};
    size_t count = 0;
    timestamp until{}; ///< end of the suspension
  };

  string_map<record> records_;
};

} // namespace millrace
