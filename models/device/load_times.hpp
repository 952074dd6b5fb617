// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "models/profile.hpp"

namespace millrace {

/// What a profile has of loads of layers [first, last) of a model of `layers`
/// layers on one kind of device, in seconds; nothing where it has none.
struct load_times {
  /// With nothing of it there: load_seconds of the whole, or what its layers
  /// take to attach and to send.
  std::optional<double> load;
  /// The part of that which begins once all is attached.
  std::optional<double> send;
};

load_times load_times_of(const profile& known, const std::string& kind,
                         size_t first, size_t last, size_t layers);

} // namespace millrace
