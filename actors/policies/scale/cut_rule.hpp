// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/names.hpp"
#include "transport/messages/decision.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// Where a model with `parts` and without `cuts` is cut.
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

/// The model with the cuts that the rule chooses, if it chooses any. With
/// `time` the largest part takes as little as can be on the device that the
/// settings name, else on the slowest one of the profile. The memory holds the
/// cuts; they stay while the largest part takes at most 10 % longer than the
/// best, so that a new measurement replaces no replica without need, and while
/// no profile is known.
model_state cut_by(cut_rule rule, const model_state& x,
                   const cluster_snapshot& in, policy_memory& memory);

} // namespace millrace
