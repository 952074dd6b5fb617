// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "models/profile.hpp"

namespace millrace {

/// Load times of layers [first, last) of a model of `layers` layers on one kind
/// of device, in seconds, from a profile; nothing where the profile has none.
struct load_times {
  /// A full load: load_seconds of the whole, or the layers' times to attach and
  /// to send.
  std::optional<double> load;
  /// The part of `load` that begins once all layers are attached.
  std::optional<double> send;
};

load_times load_times_of(const profile& known, const std::string& kind,
                         size_t first, size_t last, size_t layers);

} // namespace millrace
