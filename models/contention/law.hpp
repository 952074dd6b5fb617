// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/names.hpp"

/// \file
/// How batches that run at once on a device slow each other down. The only
/// formulas of contention in the project: emulated devices take parameters from
/// their own `emulate.interference`, policies from the cost book.

namespace millrace {

/// In slowdowns, k is the number of running batches.
enum class contention_kind : uint8_t {
  none,      ///< 1
  linear,    ///< 1 + slowdown * (k - 1)
  bandwidth, ///< max(1, sum of bandwidth shares * k^exponent)
  pairwise,  ///< 1 + sum over the neighbours of a given number per pair
  power,     ///< max(1, factor * k^exponent)
  wsm,       ///< max(1, sum of WSM) * (1 + kappa * WSM of the neighbours)
  table,     ///< a given number per k
  drawn,     ///< as pairwise, each number drawn once from the device's seed
};

constexpr auto names_of(contention_kind) {
  return name_table{"none",  "linear", "bandwidth", "pairwise",
                    "power", "wsm",    "table",     "drawn"};
}

/// A law of contention with its parameters.
struct contention_settings {
  contention_kind model = contention_kind::linear;
  double slowdown = 0;
  double exponent = 0;
  std::map<std::string, double> pairs;
  double factor = 1;
  double kappa = 0.38;
  std::vector<double> slowdowns;
  double extra_min = 0;
  double extra_max = 0.5;
  MILLRACE_FIELDS(contention_settings, model, slowdown, exponent, pairs, factor,
                  kappa, slowdowns, extra_min, extra_max)
  static constexpr auto notes() {
    return std::array{
      note{"linear: each neighbour costs the same; bandwidth: no slowdown until"
           " the batches together need more than the memory bandwidth;"
           " pairwise: by pair of models; power: a power of the number of"
           " batches; wsm: by weighted SM utilisation; table: by the number of"
           " batches; drawn: by pair of models, from the device's seed"},
      note{"linear: how much longer work takes per neighbour: 0.5 is half as"
           " long again",
           0, 100},
      note{"bandwidth: contention grows with the number of batches to this"
           " power, times the sum of their shares; power: the exponent",
           0, 4},
      note{"pairwise: MODEL+NEIGHBOUR: how much longer MODEL takes beside it"},
      note{"power: multiplies the power of the number of batches; a batch"
           " never takes less than its time alone",
           0, 100},
      note{"wsm: how much longer work takes per unit of the neighbours' WSM", 0,
           100},
      note{"table: how many times as long as alone a batch takes with 1, 2, 3"
           " and so on running batches; at least as many numbers as lanes"},
      note{"drawn: how much longer MODEL takes beside a neighbour, at least", 0,
           100},
      note{"drawn: and at most", 0, 100}};
  }
};

/// A running batch, as input of a law of contention.
struct running_batch {
  std::string_view model;
  double rows = 1;
  double share = 1; ///< of the device, above 0 and at most 1
  /// Any metric of the model's profile at these rows, by name; 0 where it was
  /// not measured. Empty: nothing was measured.
  std::function<double(std::string_view)> metric{};

  double measured(std::string_view name) const {
    return metric ? metric(name) : 0;
  }
};

/// Computes the slowdown of a batch by concurrent batches: its time relative to
/// its time alone. Pure.
class contention_law {
public:
  virtual ~contention_law() = default;

  /// At least 1. `all` includes the batch itself, at index `which`.
  virtual double slowdown(std::span<const running_batch> all,
                          size_t which) const = 0;
};

/// The metric of a profile that a law needs; empty: none.
std::string_view metric_of(contention_kind kind);

/// Sources:
/// - `bandwidth` with exponent 0: PALDIA, 4.1, equation 1, interference term
///   (from Prophet), metric bandwidth_share; with more: superlinear contention,
///   repair A of its digest, 3.3.
/// - `power`: the digest's simulated truth, 4.7: factor * k^(1+p).
/// - `wsm`: interference framework, 4.3 and 5.4, observation 4, which gives the
///   one figure that kappa 0.38 is fitted to; metric wsm_percent.
/// - `linear`, `pairwise` and `table`: what a profiler can measure.
/// `seed`: of drawn slowdowns; a pair gets the same slowdown independent of the
/// order in which pairs occur.
std::unique_ptr<contention_law>
make_contention_law(const contention_settings& settings, uint64_t seed = 0);

} // namespace millrace
