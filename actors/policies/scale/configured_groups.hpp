// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// All layers of a bundle.
layer_range whole_of(const model_info& x);

/// Bytes of the parameters of some layers; of all for {0, 0} and where the
/// bundle does not list them by layer.
uint64_t bytes_of(const model_info& x, const layer_range& layers);

/// The groups that the shorthand of a model's settings (replicas, parts, cuts,
/// replicas_of_parts, complete, device, share, units, threads, concurrency,
/// policy.batch) stands for: one whole, or one per part, and with `complete`
/// one that extends these. Without a bundle (version 0): one whole group
/// without layers.
/// Errors: bad_request when the model cannot be cut so.
result<std::vector<replica_group>> configured_groups(const model_state& x);

/// Cuts as text, "4,8".
std::string cut_text(const std::vector<uint64_t>& cuts);

/// A group of a model with the settings that all its groups share; the id ends
/// with `key`. Layers, cut and count are the caller's.
replica_group group_of(const model_state& x, const std::string& key);

/// The group of whole replicas has this key, and cut.
inline constexpr auto whole_key = "whole";

/// A group per part, in the order of the layers, and with `complete` one of
/// whole replicas that extends them. Ids and cuts begin with `prefix`; counts
/// are those of the settings. The model can be cut so.
std::vector<replica_group> groups_of_cut(const model_state& x,
                                         std::vector<uint64_t> cuts,
                                         const std::string& prefix,
                                         bool complete);

/// Copies of a model that run or start.
uint64_t copies_there(const model_load& x);

/// Copies of a model that a proposal wants; nothing without a group of the
/// model.
std::optional<uint64_t> copies_in(const proposal& x, const std::string& model);

} // namespace millrace
