// SPDX-License-Identifier: Apache-2.0
#include "models/partition/layer_costs.hpp"

#include <cmath>
#include <numeric>

namespace millrace {

namespace {

using dimensions = std::map<std::string, double>;

bool is_cost(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

/// Metrics of a profile at this number of rows; 0 where they are missing.
auto metrics_at(const profile& x, const std::string& device, double rows) {
  return [&x, &device, rows](const char* name, const dimensions& of) {
    auto found = curve_of(x, name, device, of);
    return found.empty() ? 0 : found.at(rows);
  };
}

} // namespace

size_t layers_in(const profile& measured, const std::string& device) {
  constexpr double most = 100'000;
  double out = 0;
  for (auto& p : measured.points)
    if (auto i = p.dimensions.find("layer");
        p.device == device && i != p.dimensions.end())
      out = std::max(out, std::min(i->second + 1, most));
  return static_cast<size_t>(out);
}

namespace {

/// The sum of some metrics over layers [first, last), with the fixed costs of
/// each part.
std::optional<double> sum_of_layers(const profile& x, const std::string& device,
                                    size_t first, size_t last,
                                    std::initializer_list<const char*> names) {
  auto metric = metrics_at(x, device, 1);
  double out = 0;
  for (std::string name : names)
    out += metric(("part_" + name).c_str(), {});
  for (auto i = first; i < last; ++i) {
    dimensions layer{{"layer", static_cast<double>(i)}};
    if (curve_of(x, "execute_seconds", device, layer).empty())
      return std::nullopt;
    for (auto* name : names)
      out += metric(name, layer);
  }
  return out;
}

} // namespace

std::optional<double> load_seconds_of_part(const profile& measured,
                                           const std::string& device,
                                           size_t first, size_t last) {
  return sum_of_layers(measured, device, first, last,
                       {"attach_seconds", "send_seconds"});
}

std::optional<double> send_seconds_of_part(const profile& measured,
                                           const std::string& device,
                                           size_t first, size_t last) {
  return sum_of_layers(measured, device, first, last, {"send_seconds"});
}

result<layer_costs> layer_costs_of(const profile& measured,
                                   const std::string& device, double rows,
                                   const host_link& link) {
  auto metric = metrics_at(measured, device, rows);
  auto over_link = [&](double bytes) {
    return bytes / link.rate.bytes_per_second;
  };
  layer_costs out;
  auto layers = layers_in(measured, device);
  if (layers > max_profiled_layers)
    return error{
      ec::bad_request,
      "the profile of " + measured.model + " has more layers than the "
        + std::to_string(max_profiled_layers) + " that can be planned for",
      {}};
  for (size_t i = 0; i < layers; ++i) {
    dimensions layer{{"layer", static_cast<double>(i)}};
    auto run = curve_of(measured, "execute_seconds", device, layer);
    if (run.empty())
      return error{ec::unavailable,
                   "the profile of " + measured.model
                     + " has no execute_seconds of" + " layer "
                     + std::to_string(i) + " on " + device,
                   {}};
    out.execute.push_back(run.at(rows));
    auto send = metric("send_seconds", layer);
    out.cold.push_back(over_link(metric("parameter_bytes", layer))
                       + metric("attach_seconds", layer) + send);
    out.primed_cold += send;
    out.transfer.push_back(to_seconds(link.latency)
                           + over_link(rows * metric("output_bytes", layer)));
  }
  auto whole = std::accumulate(out.execute.begin(), out.execute.end(), 0.0);
  if (whole <= 0)
    return error{ec::unavailable,
                 "the profile of " + measured.model
                   + (layers == 0 ? " has no layers on "
                                  : " has layers that take no time on ")
                   + device,
                 {}};
  auto warm_up = metric("warm_up_seconds", {});
  for (size_t i = 0; i < layers; ++i)
    out.cold[i] += warm_up * out.execute[i] / whole;
  out.primed_cold += warm_up;
  auto send = metric("part_send_seconds", {});
  out.fixed_cold = over_link(metric("part_parameter_bytes", {}))
                   + metric("part_attach_seconds", {}) + send;
  out.primed_cold += send;
  for (auto* costs : {&out.cold, &out.execute, &out.transfer})
    for (auto& cost : *costs)
      if (!is_cost(cost))
        return error{ec::bad_request,
                     "the profile of " + measured.model + ": layer "
                       + std::to_string(&cost - costs->data()) + " takes "
                       + format_number(cost) + " s",
                     {}};
  if (!is_cost(out.fixed_cold))
    return error{ec::bad_request,
                 "the profile of " + measured.model + ": each part takes "
                   + format_number(out.fixed_cold) + " s",
                 {}};
  return out;
}

} // namespace millrace
