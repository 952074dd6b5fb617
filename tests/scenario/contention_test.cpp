// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// One device of four lanes. A batch takes 10 ms alone. `law`: interference as
/// YAML. `at_once`: number of concurrent batches.
std::string four_lanes(const std::string& law, size_t at_once) {
  return "length: 10s\n"
         "hosts:\n"
         "  - {name: front, roles: [gateway, controller]}\n"
         "  - name: worker\n"
         "    roles: [worker]\n"
         "    devices: [{kind: d, lanes: 4, sharing: {mode: cap, at_once: "
         + std::to_string(at_once) + "}, emulate: {cv: 0, interference: {" + law
         + "}}}]\n"
           "bundles: {m: {execute: {d: {1: 10ms}}}}\n"
           "models:\n"
           "  - {model: m, policy: {batch: 1, queue: 100000, drop: never}}\n"
           "network: {host: {speed: 0B/s, latency: 0s}, clients: {latency:"
           " 0s}}\n"
           "workload: [{model: m, rate: 600, deadline: 600s}]\n";
}

} // namespace

TEST_CASE(
  "contention: on a device of four lanes with the power law k batches at"
  " once take factor * k^exponent times as long") {
  const std::string law = "model: power, factor: 0.9, exponent: 1.5";
  for (size_t k = 1; k <= 4; ++k) {
    CAPTURE(k);
    auto run = run_of(scenario_of(four_lanes(law, k)));
    auto alone = 10'000.;
    auto expected =
      alone * std::max(1., 0.9 * std::pow(static_cast<double>(k), 1.5));
    size_t batches = 0, right = 0;
    for (auto& x : run.batches) {
      if (x.started < 1s || x.ended > 9s)
        continue; // all lanes are busy between these times
      ++batches;
      auto took = static_cast<double>((x.ended - x.started).count());
      right += std::abs(took - expected) <= 2;
    }
    MESSAGE("k " << k << ": " << batches << " batches of " << expected
                 << " us expected, " << right << " of these took that");
    CHECK(batches > 300);
    CHECK(right > batches * 99 / 100);
  }
}
