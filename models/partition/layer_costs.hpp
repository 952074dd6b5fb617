// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/profile.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// The costs of a model's layers, in seconds: Flashpoint 4.2.3. The vectors
/// have one element per layer, none negative; the sum of `execute` is above 0.
struct layer_costs {
  std::vector<double> cold;     ///< a layer's share of its part's cold start
  std::vector<double> execute;  ///< of one request
  std::vector<double> transfer; ///< of a layer's output to another host
  double fixed_cold = 0;        ///< of each part, independent of its layers
  double primed_cold = 0; ///< of the whole model, from the memory of its host

  size_t layers() const { return cold.size(); }
};

/// The network between two hosts.
struct host_link {
  bandwidth rate{1.25e9};
  nanoseconds latency{100us};
  friend bool operator==(const host_link&, const host_link&) = default;
};

/// The number of layers with points on a kind of device.
size_t layers_in(const profile& measured, const std::string& device);

/// The costs from a profile with points of dimension `layer`, from 0. Each has
/// execute_seconds, by rows, and unless they are 0 parameter_bytes,
/// attach_seconds (to become parameters of a model in the host's memory),
/// send_seconds (from there to the device) and output_bytes (all values across
/// the cut behind it, of one row).
/// - A part's parameters come over the link: the remote start that the thesis
///   plans for.
/// - The fixed costs of each part have the same names with the prefix part_, in
///   a point without the dimension.
/// - The warm-up of the whole model is divided in proportion to
///   execute_seconds.
/// Errors: unavailable when the profile has no layers on that device, or not
/// all; bad_request when there are too many to plan for, or a cost is invalid.
result<layer_costs> layer_costs_of(const profile& measured,
                                   const std::string& device, double rows,
                                   const host_link& link);

/// Seconds to attach and send layers [first, last), with the fixed costs of a
/// part, from files or memory of their host to the device. Nothing if one of
/// these layers is not in the profile.
std::optional<double> load_seconds_of_part(const profile& measured,
                                           const std::string& device,
                                           size_t first, size_t last);

/// The same for layers that are attached already: send_seconds alone.
std::optional<double> send_seconds_of_part(const profile& measured,
                                           const std::string& device,
                                           size_t first, size_t last);

} // namespace millrace
