// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/error.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// All layers of a bundle.
layer_range whole_of(const model_info& model);

/// Bytes of the parameters of some layers; of all layers for {0, 0}, and for a
/// bundle without sizes by layer.
uint64_t bytes_of(const model_info& model, const layer_range& layers);

/// The groups that a model's settings describe in short form (replicas, parts,
/// cuts, replicas_of_parts, complete, device, share, units, threads,
/// concurrency, policy.batch): one whole group, or one group per part, and with
/// `complete` a group that extends the parts. Without a bundle (version 0): one
/// whole group without layers. Errors: bad_request when the model has no such
/// cut.
result<std::vector<replica_group>> configured_groups(const model_state& model);

/// Cuts as text, "4,8".
std::string cut_text(const std::vector<uint64_t>& cuts);

/// A group of a model with the settings that all its groups share; the id ends
/// with `key`. The caller sets layers, cut and count.
replica_group group_of(const model_state& model, const std::string& key);

/// Key and cut of the group of whole replicas.
inline constexpr auto whole_key = "whole";

/// A group per part, in the order of the layers, and with `complete` a group of
/// whole replicas that extends them. Ids and cuts begin with `prefix`; counts
/// come from the settings. The cuts are valid for the model.
std::vector<replica_group> groups_of_cut(const model_state& model,
                                         std::vector<uint64_t> cuts,
                                         const std::string& prefix,
                                         bool complete);

/// Copies of a model that run or start.
uint64_t copies_there(const model_load& load);

/// Copies of a model that a proposal wants; nothing without a group of the
/// model.
std::optional<uint64_t> copies_in(const proposal& proposed,
                                  const std::string& model);

} // namespace millrace
