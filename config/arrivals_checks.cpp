// SPDX-License-Identifier: Apache-2.0
#include "config/checker.hpp"

namespace millrace {

namespace {

using namespace std::string_literals;

constexpr int64_t most_surges = 100'000;

} // namespace

void config_checker::check_arrivals(const std::string& key,
                                    const workload_part& part,
                                    microseconds length) {
  using enum arrival_process;
  auto x = part.arrivals;
  only_of({poisson, constant, gamma, bursts, ramp, functions}, x, key + "rate");
  only_of({ramp}, x, key + "to_rate");
  only_of({bursts}, x, key + "burst");
  only_of({rates, times, refit}, x, key + "file");
  only_of({rates, times, refit}, x, key + "peak");
  only_of({rates, times, refit}, x, key + "offset");
  for (auto* option : {"functions", "tail", "each"})
    only_of({functions}, x, key + option);
  for (auto* option : {"surges", "diurnal"})
    only_of({poisson, constant, gamma, bursts, ramp, functions, refit}, x,
            key + option);
  if (x != functions) {
    only_of({gamma, refit}, x, key + "cv");
    for (auto* option : {"burst_part", "burst_length"})
      only_of({bursts}, x, key + option);
  } else {
    using enum function_process;
    only_of({function_process::gamma}, part.each, key + "cv");
    for (auto* option : {"burst_part", "burst_length"})
      only_of({on_off}, part.each, key + option);
  }
  if (part.peak > 0 && given(key + "scale"))
    refuse(key + "scale", "found beside peak; expected only one");
  for (size_t i = 0; i < part.surges.size(); ++i)
    if (auto every = part.surges[i].every;
        every > 0us && length / every > most_surges)
      refuse(at(key + "surges", i) + ".every",
             "makes more than 100,000 surges");
  if (part.requests == 0)
    return;
  for (auto* option : {"rate", "peak", "scale"})
    if (given(key + option) && !(option == "rate"s && x == ramp))
      refuse(key + option, "found beside requests; expected only one");
}

} // namespace millrace
