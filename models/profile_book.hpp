// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "models/profile.hpp"

namespace millrace {

/// Profiles of models, and of each of as many kinds of layers as were measured:
/// what plans, emulated devices and simulations take their times from.
class profile_book {
public:
  /// Of no model may there be two of the same layers.
  profile_book(std::vector<profile> xs = {}) : all_(std::move(xs)) {}

  const std::vector<profile>& all() const { return all_; }
  std::set<std::string> models() const;
  bool has(const std::string& model) const;

  /// The layers of a model that were measured, as profiles name them: those
  /// with this beginning.
  std::set<std::string> kinds_of(const std::string& model,
                                 const std::string& beginning = {}) const;

  /// What is known of a model on each kind of device: what was measured of
  /// these layers (the beginning of their name does); if nothing was, of the
  /// only others; else what is of any layers.
  /// Errors: unknown_model for a model that there is none of; bad_request for
  /// one with two kinds of layers on one device, neither or both of which are
  /// meant.
  result<profile> find(const std::string& model,
                       const std::string& layers = {}) const;

  /// Whether anything is known of that on that kind of device.
  bool tells(const std::string& metric, const std::string& device) const;

private:
  std::vector<profile> all_;
};

/// Of a file of several profiles. Errors: as read_profiles.
result<profile_book> read_book(const std::string& path);

/// Reads what a YAML file, of one profile or of several, has of a model, and of
/// these layers.
/// Errors: bad_config as read_profiles and profile_book::find, and for layers
/// that the file has not.
result<profile> read_profile(const std::string& path, const std::string& model,
                             const std::string& layers = {});

} // namespace millrace
