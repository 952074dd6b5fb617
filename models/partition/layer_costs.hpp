// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/profile.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// What a planner knows of a model, in seconds, layer by layer: Flashpoint
/// 4.2.3. As many of each as there are layers, none negative, and execute more
/// than 0 in all.
struct layer_costs {
  std::vector<double> cold;     ///< what a layer adds to its part's cold start
  std::vector<double> execute;  ///< of one request
  std::vector<double> transfer; ///< of a layer's output to another host
  double fixed_cold = 0;        ///< of each part, whatever it holds
  double primed_cold = 0;       ///< of it all, from the memory of its host

  size_t layers() const { return cold.size(); }
};

/// What lies between two hosts.
struct host_link {
  bandwidth rate{1.25e9};
  nanoseconds latency{100us};
  friend bool operator==(const host_link&, const host_link&) = default;
};

/// How many layers it speaks of on one of them.
size_t layers_in(const profile& x, const std::string& device);

/// The costs of a profile whose points have the dimension `layer`, from 0, each
/// with execute_seconds, by rows, and where they are not 0 parameter_bytes,
/// attach_seconds (until they are parameters of a model in the host's memory),
/// send_seconds (from there to the device) and output_bytes (all that crosses a
/// cut behind it, of one row). A part's parameters come over the link: the
/// start far from them that the thesis plans for. What each part needs whatever
/// its layers are is said in metrics of the same names, but with part_ before
/// them, of a point without the dimension.
/// What warms the whole model up is shared out by execute_seconds.
/// Errors: unavailable when it has no layers on that device, or not all of
/// them; bad_request when they are too many to plan for, or cost what cannot
/// be.
result<layer_costs> layer_costs_of(const profile& x, const std::string& device,
                                   double rows, const host_link& link);

/// Seconds until layers [first, last) that are in their host's files or memory
/// are on the device: what they and each part take to attach and to send, by
/// the same points. Nothing where one of these layers is not known.
std::optional<double> load_seconds_of_part(const profile& x,
                                           const std::string& device,
                                           size_t first, size_t last);

/// The part of that which layers take whose parameters are attached already:
/// send_seconds.
std::optional<double> send_seconds_of_part(const profile& x,
                                           const std::string& device,
                                           size_t first, size_t last);

} // namespace millrace
