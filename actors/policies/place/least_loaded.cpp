// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/least_loaded.hpp"

#include <utility>

#include "actors/policies/place/filters.hpp"
#include "actors/policies/place/order.hpp"

namespace millrace {

placement_map
least_loaded_placement::place(const cluster_snapshot&,
                              std::span<const placement_request> wanted,
                              capacity_reservation& room) const {
  return place_groups(wanted, room, [&]() -> chooser_factory {
    return [&](size_t i) -> device_chooser {
      // First where the whole model has room. Room only shrinks meanwhile.
      return [&, i, whole = true]() mutable {
        std::optional<size_t> out;
        do
          out =
            pick_device(room.room(), *wanted[i].group, device_order::emptiest,
                        whole, [](auto) { return true; });
        while (!out && std::exchange(whole, false));
        return out;
      };
    };
  });
}

} // namespace millrace
