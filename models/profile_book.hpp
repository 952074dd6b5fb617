// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "models/profile.hpp"

namespace millrace {

/// Profiles of models, for each of as many sets of layers as were measured.
/// Plans, emulated devices and simulations take their times from it.
class profile_book {
public:
  /// No two profiles may have the same model and layers.
  profile_book(std::vector<profile> xs = {}) : all_(std::move(xs)) {}

  const std::vector<profile>& all() const { return all_; }
  std::set<std::string> models() const;
  bool has(const std::string& model) const;

  /// The keys of a model's measured layers, as profiles name them, that start
  /// with `beginning`.
  std::set<std::string> kinds_of(const std::string& model,
                                 const std::string& beginning = {}) const;

  /// The costs of a model on each kind of device. The profile of these layers
  /// (a prefix of their key suffices) counts first, then that of the only other
  /// layers, then one of any layers.
  /// Errors: unknown_model for a model without a profile; bad_request if
  /// several profiles of one device remain.
  result<profile> find(const std::string& model,
                       const std::string& layers = {}) const;

  /// Whether any profile has this metric for this kind of device.
  bool tells(const std::string& metric, const std::string& device) const;

private:
  std::vector<profile> all_;
};

/// Reads a file of several profiles.
/// Errors: as read_profiles.
result<profile_book> read_book(const std::string& path);

/// Reads the profile of a model and these layers from a YAML file of one or
/// several profiles.
/// Errors: bad_config as read_profiles and profile_book::find, and for layers
/// that are not in the file.
result<profile> read_profile(const std::string& path, const std::string& model,
                             const std::string& layers = {});

} // namespace millrace
