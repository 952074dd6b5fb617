// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "simulator/invariants.hpp"
#include "simulator/simulation.hpp"
#include "simulator/summary.hpp"

namespace millrace::test {

/// Parses a scenario, which must be valid.
inline loaded_scenario scenario_of(const std::string& text) {
  auto out = parse_scenario(text, "scenario.yaml");
  if (!out)
    FAIL(to_string(out.failure()));
  return std::move(*out);
}

/// Loads a scenario of config/scenarios/ with replaced options.
inline loaded_scenario example(const std::string& name,
                               const std::vector<std::string>& changes = {}) {
  auto out =
    load_scenario(MILLRACE_SOURCE "/config/scenarios/" + name, changes);
  if (!out)
    FAIL(to_string(out.failure()));
  return std::move(*out);
}

/// Runs a scenario and returns its record. Checks the conservation of bytes.
inline simulator::record run_of(const loaded_scenario& what,
                                simulator::simulation::options how = {}) {
  auto run = simulator::simulation::prepare(what, std::move(how));
  REQUIRE(run);
  simulator::recorder notes{(*run)->begin(), what.spec.length};
  (*run)->add(notes);
  auto conservation = simulator::make_conservation(what);
  (*run)->add(*conservation);
  (*run)->run();
  conservation->at_end(**run);
  for (auto& x : conservation->found())
    FAIL_CHECK(x.invariant << ": " << x.what);
  auto out = notes.take();
  out.links = (*run)->links();
  (*run)->finish();
  return out;
}

inline simulator::record
run_example(const std::string& name,
            const std::vector<std::string>& changes = {}) {
  return run_of(example(name, changes));
}

/// Mean time from sending to the answer, in seconds.
inline double mean_latency(const simulator::record& x) {
  double sum = 0;
  for (auto& r : x.requests)
    sum += to_seconds(r.ended - r.sent);
  return sum / static_cast<double>(x.requests.size());
}

inline simulator::run_summary
summary_of(const std::string& text, simulator::simulation::options how = {}) {
  auto what = scenario_of(text);
  auto seed = how.seed;
  return simulator::summarise(what, seed, run_of(what, std::move(how)));
}

} // namespace millrace::test
