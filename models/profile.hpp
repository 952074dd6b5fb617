// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"

namespace millrace {

/// One measurement: its conditions and results. The names of dimensions and
/// metrics are open: share, threads, sequence_length; execute_seconds,
/// load_seconds, memory_bytes, bandwidth_share.
struct profile_point {
  std::string device; ///< kind of the device, as in the catalogue
  double batch = 1;   ///< rows
  std::map<std::string, double> dimensions;
  std::map<std::string, double> metrics;
  MILLRACE_FIELDS(profile_point, device, batch, dimensions, metrics)
};

/// Layers that a profile may have. Planning takes seconds for this number, and
/// grows with more than its fourth power.
constexpr size_t max_profiled_layers = 128;

/// The measured costs of a model.
struct profile {
  std::string model;
  std::vector<profile_point> points;
  std::string layers{}; ///< key of the measured layers; empty: of any layers
  /// By kind of device: the device that measured, such as "w1/cpu0", or the
  /// user that uploaded.
  std::map<std::string, std::string> sources{};
  MILLRACE_FIELDS(profile, model, points, layers, sources)
};

/// The kinds of device in a profile.
std::set<std::string> devices_in(const profile& measured);

/// Measured values by batch size: linear between the measured sizes. Above them
/// the last line is extended unless it falls; below them the first value holds.
class curve {
public:
  /// Of two values for one size the first is kept.
  void add(double batch, double value);
  bool empty() const { return points_.empty(); }
  /// Requires a curve that is not empty.
  double at(double batch) const;
  /// Adds a curve to it, at all sizes that either was measured at.
  curve& operator+=(const curve& other);
  curve& operator*=(double factor);
  /// A single size gives no slope: makes the value proportional to the rows.
  void prolong_alone();
  friend bool operator==(const curve&, const curve&) = default;

private:
  std::vector<std::pair<double, double>> points_; ///< by size
};

/// A metric on a kind of device, from the points with exactly these dimensions;
/// empty when there are none. If execute_seconds are known of one size only,
/// the time is proportional to the rows: batching saves nothing.
curve curve_of(const profile& measured, const std::string& metric,
               const std::string& device,
               const std::map<std::string, double>& dimensions = {});

/// A metric of layers [first, last) of `layers` layers, together: the sum of
/// the points with the dimension `layer`, from 0. Without such points it is the
/// whole model's value times the share of these layers in the number of layers.
/// Points of another number of layers belong to another model.
curve curve_of_layers(const profile& measured, const std::string& metric,
                      const std::string& device, size_t first, size_t last,
                      size_t layers);

/// Upper limit of the points in one profile.
constexpr size_t max_profile_points = 100'000;

/// Checks a profile.
/// Errors: as check_name; bad_request for:
/// - no points, or more than max_profile_points;
/// - numbers below 0 or not finite;
/// - a device without a name, a batch without rows;
/// - layers that are not numbered 0 to 127, lack execute_seconds, or all have
///   execute_seconds of 0.
result<void> check_profile(const profile& measured);

/// Reads a YAML file with a list of profiles under `models`; a model may have
/// several, of different layers. A file may instead have one profile, of the
/// model in the file or else `alone`.
/// Errors: bad_config with file and line, for profiles that check_profile
/// refuses, and for two profiles of the same layers of a model.
result<std::vector<profile>> read_profiles(const std::string& path,
                                           const std::string& alone = {});
std::string print_profiles(const std::vector<profile>& xs);

} // namespace millrace
