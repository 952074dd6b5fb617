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

/// One measurement: where it was taken and what came out. Dimensions and
/// metrics are open: share, threads, sequence_length; execute_seconds,
/// load_seconds, memory_bytes, bandwidth_share.
struct profile_point {
  std::string device; ///< kind of the device, as in the catalogue
  double batch = 1;   ///< rows
  std::map<std::string, double> dimensions;
  std::map<std::string, double> metrics;
  MILLRACE_FIELDS(profile_point, device, batch, dimensions, metrics)
};

/// That a profile may speak of. Planning takes seconds for so many, and longer
/// with more than their fourth power.
constexpr size_t max_profiled_layers = 128;

/// What is known about a model's cost.
struct profile {
  std::string model;
  std::vector<profile_point> points;
  std::string layers{}; ///< a name for those it is of; empty: of any
  /// By kind of device where that was measured: "w1/cpu0", or who brought it.
  std::map<std::string, std::string> sources{};
  MILLRACE_FIELDS(profile, model, points, layers, sources)
};

/// The kinds of device that it is of.
std::set<std::string> devices_in(const profile& x);

/// Measured values by batch size: straight lines between the measured sizes,
/// the last line prolonged beyond them unless it falls; the first value before
/// them.
class curve {
public:
  /// Of two values for one size the first one counts.
  void add(double batch, double value);
  bool empty() const { return points_.empty(); }
  /// Only of one that is not empty.
  double at(double batch) const;
  /// Adds one to it, at all sizes that either was measured at.
  curve& operator+=(const curve& x);
  curve& operator*=(double factor);
  /// One size alone says nothing of others: each row then takes as much.
  void prolong_alone();
  friend bool operator==(const curve&, const curve&) = default;

private:
  std::vector<std::pair<double, double>> points_; ///< by size
};

/// A metric on a kind of device, of points with just these dimensions; empty
/// when there are none. Where execute_seconds are known of one size only, each
/// row takes as long: batching then saves nothing.
curve curve_of(const profile& x, const std::string& metric,
               const std::string& device,
               const std::map<std::string, double>& dimensions = {});

/// A metric of layers [first, last) of so many, together: the sum of points
/// with the dimension `layer`, from 0; where there are none, as much of the
/// whole model's as these layers are of all. Points of another number of layers
/// are of another model.
curve curve_of_layers(const profile& x, const std::string& metric,
                      const std::string& device, size_t first, size_t last,
                      size_t layers);

/// Points in one profile.
constexpr size_t max_profile_points = 100'000;

/// Errors: check_name's; bad_request for a profile that nobody can have
/// measured: without points, or with more than that; of numbers below 0 or not
/// finite, devices without a name, batches without rows, or layers that are not
/// numbered 0 to 127, each with its execute_seconds, which are not all 0.
result<void> check_profile(const profile& x);

/// Several profiles in one YAML file, as a list under `models`; of a model
/// there may be some of other layers. One alone, which a file may have instead,
/// is of the model that is said, if one is. Errors: bad_config with file and
/// line; also for what check_profile refuses, and for a model whose layers are
/// there twice.
result<std::vector<profile>> read_profiles(const std::string& path,
                                           const std::string& alone = {});
std::string print_profiles(const std::vector<profile>& xs);

} // namespace millrace
