// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "millrace/child.hpp"

namespace millrace {

/// Errors: bad_request for faults that a real run does not support: kinds other
/// than kill and slow, and faults without `at`.
result<void> check_real_faults(const std::vector<fault_spec>& faults);

/// Injects the faults of a scenario into a real run, at their times: `kill`
/// ends the process of a node, `slow` slows the emulated devices of a node
/// down.
class real_faults {
public:
  /// `operators`: the address of a node's endpoint for operators. The arguments
  /// must outlive this object.
  real_faults(const loaded_scenario& what, std::string operators,
              std::map<std::string, std::unique_ptr<service>>& services);

  /// Injects the faults that are due, `since` the begin of the workload.
  /// Errors: unavailable when a node does not answer.
  result<void> apply(microseconds since);

private:
  struct step {
    microseconds at{0};
    const fault_spec* what = nullptr;
    bool ends = false;
    std::vector<std::string> nodes{}; ///< for a fault with an end
  };

  result<void> make(step& next);
  result<std::vector<std::string>> nodes_for(const fault_spec& fault) const;
  result<void> slow(const std::string& node, double factor) const;

  const loaded_scenario& what_;
  std::string operators_;
  std::map<std::string, std::unique_ptr<service>>& services_;
  std::vector<step> steps_; ///< sorted by time
  size_t next_ = 0;
};

} // namespace millrace
