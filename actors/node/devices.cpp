// SPDX-License-Identifier: Apache-2.0
#include "actors/node/devices.hpp"

#include "runtime/random.hpp"

namespace millrace {

result<device_maker> make_devices_of(const cluster_config& config) {
  emulated_ground times;
  times.random = random_stream{entropy()};
  if (!config.profiles.empty()) {
    auto book = read_book(config.profiles);
    if (!book)
      return book.failure();
    times.profiles = std::make_shared<profile_book>(std::move(*book));
  }
  return device_maker{
    [times](const device_config& d,
            device_listener& to) -> result<std::unique_ptr<device>> {
      if (d.type == device_type::cpu)
        return make_cpu_device(
          describe(d),
          {d.isolation, d.process_memory, d.load_limit, d.run_limit}, to);
      return make_emulated_device(describe(d), d.emulate, to, times);
    }};
}

} // namespace millrace
