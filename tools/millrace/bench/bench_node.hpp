// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "client/client.hpp"
#include "models/device/device.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

/// A node of this very program, in a process of its own, that serves models
/// over TCP.
class bench_node {
public:
  /// Its config and data go to `folder`. Errors: unavailable.
  static result<std::unique_ptr<bench_node>>
  start(const std::string& folder, const std::string& bundles,
        const std::vector<std::string>& models, recording mode,
        isolation_mode where);

  ~bench_node();

  /// A client, once so many models are served. Errors: unavailable after 30 s.
  result<client> connect(size_t models);

private:
  result<void> spawn(const std::string& config);

  pid_t pid_ = -1;
  std::string clients_; ///< the address
};

} // namespace millrace
