// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

struct given_options {
  std::string groups;
  MILLRACE_FIELDS(given_options, groups)
  static constexpr auto notes() {
    return std::array{
      note{"the groups of each model of the scope, with ; between them:"
           " whole, 3 parts, or cuts 4/8; then x and a number of copies; then,"
           " if need be, 'on' and a device: 'whole x2; 3 parts x1 on v100'"}};
  }
};

/// One group, or the groups of one cut, as that option has it.
struct given_item {
  uint64_t parts = 1;
  std::vector<uint64_t> cuts; ///< empty: where the parts are most alike
  uint64_t copies = 1;
  std::string device;
};

/// Errors: bad_request with the item, for an unknown shape, cuts that do not
/// rise, 0 or more than 10,000 copies, more than 128 parts, or two equal items.
result<std::vector<given_item>> parse_given(const std::string& text);

/// Policy `given`: the groups that its option lists, whatever the load
/// and the limits of its models. Groups
/// of several cuts, and whole ones, may be there side by side. A group's id
/// follows from its shape and its device: a change to one touches no other.
class given_scaling : public scaling_policy {
public:
  given_scaling(std::string scope, std::string text,
                std::vector<given_item> items)
    : scope_(std::move(scope)),
      text_(std::move(text)),
      items_(std::move(items)) {}

  static result<std::shared_ptr<const scaling_policy>>
  make(const std::string& scope, const given_options& x);

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const override;
  timestamp next_due(const policy_memory&, timestamp) const override {
    return far_future;
  }

private:
  std::string scope_;
  std::string text_; ///< of the option
  std::vector<given_item> items_;
};

} // namespace millrace
