// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config.hpp"
#include "transport/zmq/zmq_bulk.hpp"

namespace millrace {

/// Opens the bulk port of a node as configured, for the start with this
/// incarnation number. Errors: bad_config, with the address.
result<std::unique_ptr<zmq_bulk>> open_bulk_port(const cluster_config& config,
                                                 const std::string& node,
                                                 uint64_t incarnation,
                                                 std::optional<node_keys> keys,
                                                 metrics& counts);

} // namespace millrace
