// SPDX-License-Identifier: Apache-2.0
#include "models/device/load_times.hpp"

#include "models/partition/layer_costs.hpp"

namespace millrace {

namespace {

std::optional<double> load_of(const profile& known, const std::string& kind,
                              size_t first, size_t last, size_t layers) {
  auto whole =
    curve_of_layers(known, "load_seconds", kind, first, last, layers);
  if (!whole.empty() && last - first == layers)
    return whole.at(1);
  if (layers_in(known, kind) == layers)
    if (auto part = load_seconds_of_part(known, kind, first, last))
      return part;
  return whole.empty() ? std::nullopt : std::optional{whole.at(1)};
}

std::optional<double> send_of(const profile& known, const std::string& kind,
                              size_t first, size_t last, size_t layers) {
  if (last - first < layers)
    return send_seconds_of_part(known, kind, first, last);
  auto whole = curve_of(known, "send_seconds", kind);
  return whole.empty()
           ? send_seconds_of_part(known, kind, 0, layers_in(known, kind))
           : std::optional{whole.at(1)};
}

} // namespace

load_times load_times_of(const profile& known, const std::string& kind,
                         size_t first, size_t last, size_t layers) {
  return {load_of(known, kind, first, last, layers),
          send_of(known, kind, first, last, layers)};
}

} // namespace millrace
