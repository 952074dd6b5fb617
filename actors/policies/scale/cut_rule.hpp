// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/names.hpp"
#include "transport/messages/decision.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// The rule for cuts of a model with `parts` and without `cuts`.
enum class cut_rule : uint8_t {
  bytes, ///< parts have equally many bytes of parameters
  time   ///< parts take equally long, by the profile of the model's layers
};

constexpr auto names_of(cut_rule) {
  return name_table{"bytes", "time"};
}

constexpr auto about_cut_rule =
  "where a model with parts and without cuts is cut: bytes, parts of equally"
  " many bytes; time, parts that take equally long, by the profile of its"
  " layers, and by bytes until that is known";

/// Returns the model with the cuts of the rule, if any. With `time` the slowest
/// part takes as little time as possible on the device of the settings, else on
/// the slowest device of the profile. The memory holds the cuts. They stay
/// while the slowest part takes at most 10 % longer than the best cuts, so that
/// a new measurement replaces no replica without need. They also stay without a
/// profile.
model_state cut_by(cut_rule rule, const model_state& model,
                   const cluster_snapshot& in, policy_memory& memory);

} // namespace millrace
