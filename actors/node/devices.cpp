// SPDX-License-Identifier: Apache-2.0
#include "actors/node/devices.hpp"

#include "runtime/random.hpp"

namespace millrace {

gpu_place place_of(const cuda_config& settings) {
  return {.gpu = static_cast<int>(settings.gpu),
          .sharing = settings.sharing,
          .streaming = settings.streaming,
          .graphs = settings.graphs,
          .parameters = settings.parameters,
          .pipelined = settings.pipelined};
}

result<device_maker> make_devices_of(const cluster_config& config,
                                     const crash_counts& crashes) {
  emulated_environment times;
  times.random = random_stream{entropy()};
  times.process = std::make_shared<host_process>();
  if (!config.profiles.empty()) {
    auto book = read_book(config.profiles);
    if (!book)
      return book.failure();
    times.profiles = std::make_shared<profile_book>(std::move(*book));
  }
  return device_maker{
    [times, crashes](const device_config& d,
                     device_listener& to) -> result<std::unique_ptr<device>> {
      if (d.type == device_type::emulated) {
        auto of_device = times;
        of_device.contention_seed =
          times.random->fork("contention on " + d.id).next();
        return make_emulated_device(describe(d), d.emulate, to, of_device);
      }
      backend_settings settings{
        d.isolation, d.process_memory, d.load_limit, d.run_limit,
        {},          crashes,          d.pace};
      if (d.type == device_type::cuda)
        settings.gpu = place_of(d.cuda);
      return make_backend_device(describe(d), settings, to);
    }};
}

} // namespace millrace
