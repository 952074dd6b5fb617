// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"

namespace millrace {

/// One measurement: where it was taken and what came out. Dimensions and
/// metrics are open: share, threads, sequence_length; execute_seconds,
/// load_seconds, memory_bytes.
struct profile_point {
  std::string device; ///< kind of the device, as in the catalogue
  double batch = 1;   ///< rows
  std::map<std::string, double> dimensions;
  std::map<std::string, double> metrics;
  MILLRACE_FIELDS(profile_point, device, batch, dimensions, metrics)
};

/// What is known about a model's cost.
struct profile {
  std::string model;
  std::vector<profile_point> points;
  MILLRACE_FIELDS(profile, model, points)
};

/// A metric at a batch size on a kind of device: straight lines between the
/// measured batch sizes, the last line prolonged beyond them; nothing when no
/// point has the device and metric.
std::optional<double> estimate(const profile& x, const std::string& metric,
                               const std::string& device, double batch);

/// Reads a profile from a YAML file. Errors: bad_config with file and line.
result<profile> read_profile(const std::string& path);

} // namespace millrace
