// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/profile.hpp"

namespace millrace {

/// A profile as it travels and is kept: each name once, and a row of numbers
/// in the place of points. Until somebody unpacks it, it takes no more memory
/// than bytes; points, with their maps, take several times as much.
struct packed_profile {
  std::string model;
  std::string layers;
  std::map<std::string, std::string> sources;
  std::vector<std::string> names; ///< of devices, dimensions and metrics
  /// Of each point: its device's name, its batch, how many dimensions it has
  /// and each one's name and value, how many metrics and the same of these.
  /// Names are places in the list above.
  std::vector<double> numbers;
  MILLRACE_FIELDS(packed_profile, model, layers, sources, names, numbers)
};

packed_profile pack(const profile& x);

/// Errors: bad_request for what pack does not make, and as check_profile.
result<profile> unpack(const packed_profile& x);

} // namespace millrace
