// SPDX-License-Identifier: Apache-2.0
#include "models/profile.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/bytes.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

namespace {

constexpr auto before = [](const std::pair<double, double>& x, double batch) {
  return x.first < batch;
};

} // namespace

void curve::add(double batch, double value) {
  auto i = std::lower_bound(points_.begin(), points_.end(), batch, before);
  if (i == points_.end() || i->first != batch)
    points_.insert(i, {batch, value});
}

double curve::at(double batch) const {
  if (points_.size() == 1)
    return points_.front().second;
  auto right = std::lower_bound(points_.begin(), points_.end(), batch, before);
  if (right == points_.end()) {
    --right;
    if (right->second < std::prev(right)->second)
      return right->second;
  }
  if (right == points_.begin())
    return right->second;
  auto left = std::prev(right);
  auto slope = (right->second - left->second) / (right->first - left->first);
  return left->second + slope * (batch - left->first);
}

curve& curve::operator+=(const curve& other) {
  if (empty() || other.empty())
    return empty() ? *this = other : *this;
  curve sum;
  for (const curve* one : {static_cast<const curve*>(this), &other})
    for (auto& [batch, value] : one->points_)
      sum.add(batch, at(batch) + other.at(batch));
  return *this = std::move(sum);
}

curve& curve::operator*=(double factor) {
  for (auto& [batch, value] : points_)
    value *= factor;
  return *this;
}

void curve::prolong_alone() {
  if (points_.size() == 1)
    add(2 * points_[0].first, 2 * points_[0].second);
}

std::set<std::string> devices_in(const profile& measured) {
  std::set<std::string> out;
  for (auto& p : measured.points)
    out.insert(p.device);
  return out;
}

curve curve_of(const profile& measured, const std::string& metric,
               const std::string& device,
               const std::map<std::string, double>& dimensions) {
  curve out;
  for (auto& p : measured.points)
    if (p.device == device && p.dimensions == dimensions
        && p.metrics.contains(metric))
      out.add(p.batch, p.metrics.at(metric));
  if (metric == "execute_seconds")
    out.prolong_alone();
  return out;
}

curve curve_of_layers(const profile& measured, const std::string& metric,
                      const std::string& device, size_t first, size_t last,
                      size_t layers) {
  auto of_layer = [&](size_t i) {
    return curve_of(measured, metric, device,
                    {{"layer", static_cast<double>(i)}});
  };
  auto alike =
    layers > 0 && !of_layer(layers - 1).empty() && of_layer(layers).empty();
  curve out;
  for (auto i = first; alike && i < last; ++i)
    out += of_layer(i);
  auto whole = curve_of(measured, metric, device);
  auto all = last - first == layers;
  if (!whole.empty() && (all || out.empty())) {
    out = std::move(whole);
    out *= static_cast<double>(last - first) / static_cast<double>(layers);
  }
  return out;
}

namespace {

/// A file with one profile, or with several in `models`.
struct profile_file {
  std::string model;
  std::vector<profile_point> points;
  std::vector<profile> models;
  MILLRACE_FIELDS(profile_file, model, points, models)
};

struct profile_list {
  std::vector<profile> models;
  MILLRACE_FIELDS(profile_list, models)
};

template <class T>
result<void> read_yaml(const std::string& path, T& out) {
  constexpr size_t max_profile = 16u << 20;
  auto text = read_file(path, max_profile);
  if (!text)
    return error{ec::bad_config, text.failure().text, {}};
  return yaml_reader{path}.read(*text, out);
}

bool is_layer(double x) {
  return x >= 0 && x < max_profiled_layers && x == std::floor(x);
}

/// The defect of a point; empty: none.
std::string flaw_of(const profile_point& x) {
  if (x.device.empty())
    return "device: empty, expected the name of a kind of device";
  if (!(x.batch > 0) || !std::isfinite(x.batch))
    return "batch: " + format_number(x.batch) + ", expected more than 0";
  if (auto layer = x.dimensions.find("layer");
      layer != x.dimensions.end() && !is_layer(layer->second))
    return "layer: " + format_number(layer->second)
           + ", expected a whole number from 0 to "
           + std::to_string(max_profiled_layers - 1);
  for (auto& [name, value] : x.metrics)
    if (!std::isfinite(value) || value < 0)
      return name + ": " + format_number(value)
             + ", expected a number from 0 on";
  return {};
}

/// The defect of the layers: a layer without execute_seconds below others that
/// have them, or no layer with a time above 0. Empty: none.
std::string gap_in(const profile& x) {
  struct known_layers {
    size_t all = 0;
    std::map<size_t, double> run; ///< sum of seconds, over all batch sizes
  };
  std::map<std::string, known_layers> layers;
  for (auto& p : x.points)
    if (auto i = p.dimensions.find("layer"); i != p.dimensions.end()) {
      auto layer = static_cast<size_t>(i->second);
      auto& of = layers[p.device];
      of.all = std::max(of.all, layer + 1);
      if (auto run = p.metrics.find("execute_seconds"); run != p.metrics.end())
        of.run[layer] += run->second;
    }
  for (auto& [device, of] : layers) {
    double sum = 0;
    for (size_t i = 0; i < of.all; ++i) {
      if (!of.run.contains(i))
        return " has no execute_seconds of layer " + std::to_string(i) + " on "
               + shown(device);
      sum += of.run.at(i);
    }
    if (sum <= 0)
      return " has layers that take no time on " + shown(device);
  }
  return {};
}

} // namespace

result<void> check_profile(const profile& measured) {
  auto refuse = [&](const std::string& why) {
    return error{
      ec::bad_request, "the profile of " + shown(measured.model) + why, {}};
  };
  if (auto fine = check_name("model", measured.model); !fine)
    return fine;
  if (measured.points.empty() || measured.points.size() > max_profile_points)
    return refuse(" has " + std::to_string(measured.points.size())
                  + " points, expected 1 to "
                  + std::to_string(max_profile_points));
  for (size_t i = 0; i < measured.points.size(); ++i)
    if (auto flaw = flaw_of(measured.points[i]); !flaw.empty())
      return refuse(", points[" + std::to_string(i) + "]: " + flaw);
  if (auto gap = gap_in(measured); !gap.empty())
    return refuse(gap);
  return {};
}

namespace {

/// Errors: as read_profiles.
result<std::vector<profile>> checked(std::vector<profile> xs,
                                     const std::string& path) {
  std::set<std::pair<std::string, std::string>> seen;
  for (auto& x : xs) {
    if (auto fine = check_profile(x); !fine)
      return error{ec::bad_config, path + ": " + fine.failure().text, {}};
    if (!seen.emplace(x.model, x.layers).second)
      return error{ec::bad_config,
                   path + ": model '" + x.model + "' is there twice"
                     + (x.layers.empty() ? "" : ", of the same layers"),
                   {}};
  }
  return xs;
}

} // namespace

result<std::vector<profile>> read_profiles(const std::string& path,
                                           const std::string& alone) {
  profile_list list;
  if (alone.empty()) {
    if (auto done = read_yaml(path, list); !done)
      return done.failure();
    return checked(std::move(list.models), path);
  }
  profile_file file;
  if (auto done = read_yaml(path, file); !done)
    return done.failure();
  if (file.models.empty())
    file.models.push_back({alone, std::move(file.points), {}, {}});
  return checked(std::move(file.models), path);
}

std::string print_profiles(const std::vector<profile>& xs) {
  return yaml_writer::write(profile_list{xs});
}

} // namespace millrace
