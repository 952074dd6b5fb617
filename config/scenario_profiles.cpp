// SPDX-License-Identifier: Apache-2.0
#include "config/scenario_profiles.hpp"
#include "runtime/bytes.hpp"
#include "runtime/yaml_record.hpp"

#include "runtime/text.hpp"

namespace millrace {

namespace {

void scale(profile_point& x, double times) {
  for (auto& [metric, value] : x.metrics)
    if (metric.ends_with("_seconds"))
      value *= times;
}

/// Adds the times of the kind named by `like`, for metrics without own times.
void add_likeness(profile& x, const std::string& kind,
                  const device_kind& about) {
  auto points = x.points;
  auto has = [&](const std::string& metric) {
    return !curve_of({x.model, points}, metric, kind).empty();
  };
  for (auto p : points) {
    if (about.like.empty() || p.device != about.like)
      continue;
    p.device = kind;
    std::erase_if(p.metrics, [&](auto& m) { return has(m.first); });
    scale(p, about.times);
    if (!p.metrics.empty())
      x.points.push_back(std::move(p));
  }
}

/// Makes the profile of a model: its own points first, then those of the model
/// named by `like`.
result<profile> profile_of(const scenario& what, const std::string& name) {
  auto& x = what.bundles.at(name);
  profile out{name, {}};
  if (!x.profile.empty()) {
    auto found = read_profile(x.profile, name, x.profile_layers);
    if (!found)
      return found.failure();
    out.points = std::move(found->points);
  }
  auto add = [&](const std::string& kind, double rows, const char* metric,
                 microseconds value) {
    out.points.push_back({kind, rows, {}, {{metric, to_seconds(value)}}});
  };
  for (auto& [kind, times] : x.execute)
    for (auto& [rows, time] : times)
      add(kind, number_in<double>(rows).value_or(1), "execute_seconds", time);
  for (auto& [kind, time] : x.load)
    add(kind, 1, "load_seconds", time);
  for (auto& [kind, time] : x.send)
    add(kind, 1, "send_seconds", time);
  if (x.like.empty())
    return out;
  auto like = profile_of(what, x.like);
  if (!like)
    return like.failure();
  for (auto& point : like->points) {
    scale(point, x.times);
    out.points.push_back(point);
  }
  return out;
}

} // namespace

result<profile_book> make_profiles(const scenario& what,
                                   const device_catalogue& kinds) {
  std::vector<profile> out;
  for (auto& [name, x] : what.bundles) {
    auto mine = profile_of(what, name);
    if (!mine)
      return mine.failure();
    for (auto& [kind, about] : kinds.kinds)
      add_likeness(*mine, kind, about);
    out.push_back(std::move(*mine));
  }
  return profile_book{std::move(out)};
}

result<device_catalogue> load_catalogue(const std::string& path) {
  constexpr size_t largest = 4u << 20;
  auto text = read_file(path, largest);
  if (!text)
    return error{ec::bad_config, text.failure().text, {}};
  device_catalogue out;
  yaml_reader reader{path};
  if (auto done = reader.read(*text, out); !done)
    return done.failure();
  for (auto& [kind, x] : out.kinds)
    if (!x.like.empty() && !out.kinds.contains(x.like))
      return error{ec::bad_config,
                   reader.where("kinds." + kind + ".like") + "there is no kind "
                     + shown(x.like),
                   {}};
  return out;
}

} // namespace millrace
