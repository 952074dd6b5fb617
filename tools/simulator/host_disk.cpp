// SPDX-License-Identifier: Apache-2.0
#include "simulator/host_disk.hpp"

namespace millrace::simulator {

host_disk::host_disk(simulated_network& net, host_number host, bandwidth speed)
  : net_(net),
    host_(host) {
  if (speed.bytes_per_second > 0)
    link_ = net.add_disk(host, speed);
}

std::unique_ptr<simulated_network::stream> host_disk::open() {
  return link_ ? net_.open_disk(host_, *link_) : nullptr;
}

} // namespace millrace::simulator
