// SPDX-License-Identifier: Apache-2.0
#include "models/partition/profile_remarks.hpp"

#include <functional>

#include "models/partition/layer_costs.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Metrics that some part of Millrace reads or produces.
const std::set<std::string> known_metrics{
  "execute_seconds",     "load_seconds",      "open_seconds",
  "warm_up_seconds",     "memory_bytes",      "activation_bytes",
  "parameter_bytes",     "attach_seconds",    "send_seconds",
  "output_bytes",        "deadline_seconds",  "bandwidth_share",
  "part_attach_seconds", "part_send_seconds", "part_parameter_bytes",
  "wsm_percent"};

std::string place_of(const profile_point& p) {
  std::string out = shown(p.device) + " with batch " + format_number(p.batch);
  for (auto& [name, value] : p.dimensions)
    out += ", " + name + " " + format_number(value);
  return out;
}

/// Reports duplicate values of a metric under the same conditions.
void add_doubles(const profile& x, std::vector<std::string>& out) {
  using place =
    std::tuple<std::string, double, std::map<std::string, double>, std::string>;
  std::set<place> seen;
  size_t doubles = 0;
  std::string first;
  for (auto& p : x.points)
    for (auto& [metric, value] : p.metrics)
      if (!seen.emplace(p.device, p.batch, p.dimensions, metric).second
          && doubles++ == 0)
        first = metric + " on " + place_of(p);
  if (doubles > 0)
    out.push_back(first + " is there twice"
                  + (doubles > 1 ? ", and so are " + std::to_string(doubles - 1)
                                     + " other values"
                                 : "")
                  + "; the first counts");
}

bool has(const profile& x, const std::string& device,
         const std::string& metric) {
  for (auto& p : x.points)
    if (p.device == device && p.metrics.contains(metric))
      return true;
  return false;
}

/// For a batch of one row.
struct run_seconds {
  double whole = 0;
  double layers = 0; ///< sum over the layers
};

run_seconds seconds_of_all(const profile& x, const std::string& device) {
  run_seconds out;
  auto at_one = [](const curve& y) { return y.empty() ? 0 : y.at(1); };
  out.whole = at_one(curve_of(x, "execute_seconds", device));
  for (size_t i = 0; i < layers_in(x, device); ++i)
    out.layers += at_one(curve_of(x, "execute_seconds", device,
                                  {{"layer", static_cast<double>(i)}}));
  return out;
}

} // namespace

std::vector<std::string> remarks_on(const profile& measured) {
  std::vector<std::string> out;
  std::set<std::string> unread;
  for (auto& p : measured.points)
    for (auto& [metric, value] : p.metrics)
      if (!known_metrics.contains(metric))
        unread.insert(shown(metric));
  if (!unread.empty())
    out.push_back("nothing reads " + joined(unread, ", ", std::identity{})
                  + "; the metrics that are read are "
                  + joined(known_metrics, ", ", std::identity{}));
  add_doubles(measured, out);
  for (auto& device : devices_in(measured)) {
    auto lacks = [&](const char* metric, const char* what) {
      if (!has(measured, device, metric))
        out.push_back(std::string{"without "} + metric + " on " + shown(device)
                      + " plans count " + what + " as 0");
    };
    if (layers_in(measured, device) == 0) {
      if (!has(measured, device, "execute_seconds"))
        out.push_back("without execute_seconds on " + shown(device)
                      + " its execution time there is unknown");
      continue;
    }
    auto of_all = seconds_of_all(measured, device);
    if (of_all.whole > 2 * of_all.layers)
      out.push_back("its layers take " + format_seconds(of_all.layers)
                    + " of the " + format_seconds(of_all.whole)
                    + " that all take on " + shown(device)
                    + ": plans do not include the fixed time of each run");
    lacks("parameter_bytes", "fetching layers");
    lacks("output_bytes", "transfers between parts");
  }
  return out;
}

} // namespace millrace
