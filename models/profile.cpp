// SPDX-License-Identifier: Apache-2.0
#include "models/profile.hpp"

#include "runtime/bytes.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

std::optional<double> estimate(const profile& x, const std::string& metric,
                               const std::string& device, double batch) {
  std::map<double, double> known;
  for (auto& p : x.points)
    if (p.device == device && p.metrics.contains(metric))
      known.emplace(p.batch, p.metrics.at(metric));
  if (known.empty())
    return std::nullopt;
  if (known.size() == 1)
    return known.begin()->second;
  auto right = known.lower_bound(batch);
  if (right == known.end())
    --right;
  if (right == known.begin())
    return batch >= right->first ? right->second : known.begin()->second;
  auto left = std::prev(right);
  auto slope = (right->second - left->second) / (right->first - left->first);
  return left->second + slope * (batch - left->first);
}

result<profile> read_profile(const std::string& path) {
  constexpr size_t max_profile = 16u << 20;
  auto text = read_file(path, max_profile);
  if (!text)
    return text.failure();
  profile out;
  if (auto done = yaml_reader{path}.read(*text, out); !done)
    return done.failure();
  return out;
}

} // namespace millrace
