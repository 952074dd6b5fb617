// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config.hpp"
#include "transport/zmq/zmq_bulk.hpp"

namespace millrace {

/// The bulk port of a node, as its config says, in its start of that number.
/// Errors: bad_config, naming the address.
result<std::unique_ptr<zmq_bulk>> open_bulk_port(const cluster_config& config,
                                                 const std::string& node,
                                                 uint64_t incarnation,
                                                 std::optional<node_keys> keys,
                                                 metrics& counts);

} // namespace millrace
