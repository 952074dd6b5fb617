// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"

namespace millrace {

enum class interference_kind : uint8_t { none, linear, bandwidth, pairwise };

constexpr auto names_of(interference_kind) {
  return name_table{"none", "linear", "bandwidth", "pairwise"};
}

/// How work on one device slows its neighbours down.
struct interference_settings {
  interference_kind model = interference_kind::linear;
  double slowdown = 0;
  double exponent = 0;
  std::map<std::string, double> pairs;
  MILLRACE_FIELDS(interference_settings, model, slowdown, exponent, pairs)
  static constexpr auto notes() {
    return std::array{
      note{"linear: each neighbour costs the same; bandwidth: nothing, until"
           " the shares of memory bandwidth that all need are more than there"
           " is; pairwise: by which models meet"},
      note{"linear: how much longer work takes per neighbour: 0.5 is half as"
           " long again",
           0, 100},
      note{"bandwidth: contention grows with the number of batches to this"
           " power, times the sum of their shares",
           0, 4},
      note{"pairwise: MODEL+NEIGHBOUR: how much longer MODEL takes beside it"}};
  }
};

/// A batch that runs, as interference models see it.
struct running_batch {
  std::string model;
  double demand = 0; ///< share of the device's memory bandwidth it needs alone
};

/// Says how many times longer than alone a batch takes beside others. Pure.
class interference_model {
public:
  virtual ~interference_model() = default;

  /// At least 1. `all` holds the batch itself too, at `which`.
  virtual double slowdown(std::span<const running_batch> all,
                          size_t which) const = 0;
};

/// `bandwidth` is PALDIA's co-location model (section 4.1, equation 1, the
/// contention term with the repair of superlinear contention that its digest
/// calls A); `linear` and `pairwise` are tables a profiler can fill.
std::unique_ptr<interference_model>
make_interference(const interference_settings& x);

} // namespace millrace
