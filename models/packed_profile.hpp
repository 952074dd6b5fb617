// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/profile.hpp"

namespace millrace {

/// The compact form of a profile for messages and storage: each name once, and
/// rows of numbers in place of points. Unpacked points, with their maps, take
/// several times as much memory.
struct packed_profile {
  std::string model;
  std::string layers;
  std::map<std::string, std::string> sources;
  std::vector<std::string> names; ///< of devices, dimensions and metrics
  /// Of each point: the name of its device, its batch, the number of dimensions
  /// with a name and value each, and the number of metrics with the same. Names
  /// are indices into `names`.
  std::vector<double> numbers;
  MILLRACE_FIELDS(packed_profile, model, layers, sources, names, numbers)
};

packed_profile pack(const profile& measured);

/// Errors: bad_request for data that pack does not produce; as check_profile.
result<profile> unpack(const packed_profile& packed);

} // namespace millrace
