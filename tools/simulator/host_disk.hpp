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

/// The disk of a simulated host, as models use it: what is read and written at
/// a time shares its speed evenly. What it keeps outlives the host's processes.
class host_disk {
public:
  /// A speed of 0: it takes no time.
  host_disk(simulated_network& net, host_number host, bandwidth speed);

  bool is_limited() const { return link_.has_value(); }

  /// A transfer from or to the disk, in order; null where it takes no time.
  std::unique_ptr<simulated_network::stream> open();

  /// What is kept there of other hosts' models, by content.
  std::map<std::string, std::shared_ptr<const bundle>>& kept() { return kept_; }

private:
  simulated_network& net_;
  host_number host_;
  std::optional<link_number> link_;
  std::map<std::string, std::shared_ptr<const bundle>> kept_;
};

} // namespace millrace::simulator
