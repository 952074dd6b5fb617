// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

struct given_options {
  std::string groups;
  std::string devices;
  MILLRACE_FIELDS(given_options, groups, devices)
  static constexpr auto notes() {
    return std::array{
      note{"the groups of each model of the scope, with ; between them:"
           " whole, 3 parts, or cuts 4/8; then x and a number of copies; then"
           " parameters: on DEVICE, share S, batch ROWS, batch-max ROWS,"
           " concurrency N, threads N, weight W; the others are those of the"
           " model: 'whole on worker-1/cuda0 batch 9; whole x3 batch 5'"},
      note{"how devices are shared, with ; between them: a device (kind, id or"
           " NODE/ID), a mode as in devices[].sharing, then at-once N and"
           " per-replica N if need be: 'worker-1/cuda0 wave at-once 4'; the"
           " others are shared as configured"}};
  }
};

/// One group, or the groups of one cut, as the option `groups` lists it. Unset
/// parameters come from the model.
struct given_item {
  uint64_t parts = 1;
  std::vector<uint64_t> cuts; ///< empty: parts as equal as possible
  uint64_t copies = 1;
  std::string device;
  std::optional<double> share; ///< above 0, up to 1
  std::optional<uint64_t> batch, batch_max, concurrency, threads;
  std::optional<double> weight; ///< above 0
  uint64_t number = 1; ///< among the items of the same shape and device

  /// Whether the items differ only in the copies.
  bool is_like(const given_item& other) const;
};

/// Errors: bad_request with the item, for
///
/// - an unknown shape, or cuts that do not rise;
/// - 0 or more than 10,000 copies, or more than 128 parts;
/// - a parameter outside its bounds;
/// - two items that differ only in the copies.
result<std::vector<given_item>> parse_given(const std::string& text);

/// Errors: bad_request with the item.
result<std::vector<device_plan>> parse_shared(const std::string& text);

/// Policy `given`: the groups that its option lists, whatever the load and the
/// limits of its models. Groups of several cuts and whole groups may run side
/// by side. The id of a group consists of its shape, its device and its number
/// among such groups. A change to a group therefore touches no other group, and
/// a change of tunables keeps the replicas.
class given_scaling : public scaling_policy {
public:
  given_scaling(std::string scope, std::string text,
                std::vector<given_item> items, std::vector<device_plan> devices)
    : scope_(std::move(scope)),
      text_(std::move(text)),
      items_(std::move(items)),
      devices_(std::move(devices)) {}

  static result<std::shared_ptr<const scaling_policy>>
  make(const std::string& scope, const given_options& options);

  proposal propose(const cluster_snapshot& snapshot, policy_memory& memory,
                   random_stream& random, timestamp now) const override;
  timestamp next_due(const policy_memory&, timestamp) const override {
    return far_future;
  }

private:
  std::string scope_;
  std::string text_; ///< of the option
  std::vector<given_item> items_;
  std::vector<device_plan> devices_;
};

} // namespace millrace
