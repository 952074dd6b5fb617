// SPDX-License-Identifier: Apache-2.0
#include "shell/clocks.hpp"

#include "runtime/log.hpp"
#include "shell/ask.hpp"

namespace millrace {

namespace {

constexpr int rounds = 9;

microseconds monotonic_now() {
  return to_us(steady_now().time_since_epoch());
}

} // namespace

std::map<std::string, clock_estimate>
estimate_clocks(operator_client& cluster,
                const std::vector<std::string>& nodes) {
  std::map<std::string, clock_estimate> out;
  for (auto& node : nodes)
    for (int i = 0; i < rounds; ++i) {
      auto before = monotonic_now();
      auto x = cluster.ask<clock_reading>(node + "/inspector", get_clock{},
                                          shell_patience);
      if (!x)
        break;
      auto after = monotonic_now();
      auto within = (after - before) / 2;
      auto middle = before + within;
      auto known = out.find(node);
      if (known == out.end() || within < known->second.within)
        out[node] = {middle - x->monotonic,
                     x->wall - (wall_clock() - (after - middle)), within};
    }
  return out;
}

} // namespace millrace
