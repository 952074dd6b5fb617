// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/bundle.hpp"
#include "transport/simulated/network.hpp"

namespace millrace::simulator {

/// The disk of a simulated host, for models. Simultaneous reads and writes
/// share the disk's speed evenly. The disk's content outlives the host's
/// processes.
class host_disk {
public:
  /// `speed` 0: transfers take no time.
  host_disk(simulated_network& net, host_number host, bandwidth speed);

  bool is_limited() const { return link_.has_value(); }

  /// Opens a sequential transfer from or to the disk; null if it takes no time.
  std::unique_ptr<simulated_network::stream> open();

  /// Bundles that came from other hosts, by content.
  std::map<std::string, std::shared_ptr<const bundle>>& kept() { return kept_; }

private:
  simulated_network& net_;
  host_number host_;
  std::optional<link_number> link_;
  std::map<std::string, std::shared_ptr<const bundle>> kept_;
};

} // namespace millrace::simulator
