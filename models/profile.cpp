// SPDX-License-Identifier: Apache-2.0
#include "models/profile.hpp"

#include <algorithm>

#include "runtime/bytes.hpp"
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

curve& curve::operator+=(const curve& x) {
  if (empty() || x.empty())
    return empty() ? *this = x : *this;
  curve sum;
  for (const curve* one : {static_cast<const curve*>(this), &x})
    for (auto& [batch, value] : one->points_)
      sum.add(batch, at(batch) + x.at(batch));
  return *this = std::move(sum);
}

curve& curve::operator*=(double factor) {
  for (auto& [batch, value] : points_)
    value *= factor;
  return *this;
}

curve curve_of(const profile& x, const std::string& metric,
               const std::string& device,
               const std::map<std::string, double>& dimensions) {
  curve out;
  for (auto& p : x.points)
    if (p.device == device && p.dimensions == dimensions
        && p.metrics.contains(metric))
      out.add(p.batch, p.metrics.at(metric));
  return out;
}

curve curve_of_layers(const profile& x, const std::string& metric,
                      const std::string& device, size_t first, size_t last,
                      size_t layers) {
  curve out;
  for (auto i = first; i < last; ++i)
    out += curve_of(x, metric, device, {{"layer", static_cast<double>(i)}});
  auto whole = curve_of(x, metric, device);
  auto all = last - first == layers;
  if (!whole.empty() && (all || out.empty())) {
    out = std::move(whole);
    out *= static_cast<double>(last - first) / static_cast<double>(layers);
  }
  return out;
}

namespace {

struct profile_list {
  std::vector<profile> models;
  MILLRACE_FIELDS(profile_list, models)
};

template <class T>
result<T> read_yaml(const std::string& path) {
  constexpr size_t max_profile = 16u << 20;
  auto text = read_file(path, max_profile);
  if (!text)
    return error{ec::bad_config, text.failure().text, {}};
  T out;
  if (auto done = yaml_reader{path}.read(*text, out); !done)
    return done.failure();
  return out;
}

} // namespace

result<profile> read_profile(const std::string& path) {
  return read_yaml<profile>(path);
}

result<profile_book> read_profiles(const std::string& path) {
  auto list = read_yaml<profile_list>(path);
  if (!list)
    return list.failure();
  profile_book out;
  for (auto& x : list->models)
    if (!out.emplace(x.model, x).second)
      return error{
        ec::bad_config, path + ": model '" + x.model + "' is there twice", {}};
  return out;
}

std::string print_profiles(const profile_book& x) {
  profile_list out;
  for (auto& [model, y] : x)
    out.models.push_back(y);
  return yaml_writer::write(out);
}

} // namespace millrace
