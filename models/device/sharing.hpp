// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// Which batches run on a device at once.
enum class sharing_mode : uint8_t {
  lanes, ///< one on each lane; one more per lane waits inside the device
  time,  ///< one at a time
  space, ///< one on each lane; none waits inside the device
  wave,  ///< at_once batches together, then the rest one at a time
  cap,   ///< at most at_once; the next begins when one ends
};

constexpr auto names_of(sharing_mode) {
  return name_table{"lanes", "time", "space", "wave", "cap"};
}

/// How the replicas of a device share it.
struct device_sharing {
  sharing_mode mode = sharing_mode::lanes;
  uint32_t at_once = 0;     ///< batches, with wave and cap; 0: as many as lanes
  uint32_t per_replica = 0; ///< batches of one replica at once; 0: no limit
  MILLRACE_FIELDS(device_sharing, mode, at_once, per_replica)
  static constexpr auto notes() {
    return std::array{
      note{
        "which batches run at once: lanes, one on each lane, and the device"
        " has the next one of each lane already; time, one at a time; space,"
        " one on each lane; wave, from an idle device on at_once together,"
        " then the waiting batches one at a time until none waits; cap, at most"
        " at_once, the next one when one ends"},
      note{"with wave or cap: batches at once, at most as many as the device"
           " has lanes; 0: as many as lanes",
           0, 256},
      note{"batches of one replica that the device has at once; 0: as many as"
           " the replica may have",
           0, 256}};
  }

  /// Upper limit of the batches that run together on this number of lanes.
  constexpr uint32_t most_at_once(uint32_t lanes) const {
    lanes = std::max(1u, lanes);
    switch (mode) {
    case sharing_mode::time:
      return 1;
    case sharing_mode::wave:
    case sharing_mode::cap:
      return at_once == 0 ? lanes : std::min(at_once, lanes);
    case sharing_mode::lanes:
    case sharing_mode::space:
      break;
    }
    return lanes;
  }
};

/// Errors: bad_request when at_once exceeds the lanes of the device.
inline result<void> check_at_once(const device_sharing& sharing,
                                  uint32_t lanes) {
  auto most = std::max(1u, lanes);
  if (sharing.at_once > most)
    return error{ec::bad_request,
                 "found " + std::to_string(sharing.at_once)
                   + ", expected at most " + std::to_string(most)
                   + " (lanes of the device)",
                 {}};
  return {};
}

} // namespace millrace
