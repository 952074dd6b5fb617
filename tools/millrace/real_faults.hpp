// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "millrace/child.hpp"

namespace millrace {

/// Errors: bad_request for faults that a real run cannot make: kinds other than
/// kill and slow, and those without `at`.
result<void> check_real_faults(const std::vector<fault_spec>& x);

/// The faults of a scenario in a real run, at their times: `kill` ends the
/// process of a node, `slow` has the emulated devices of a node take longer.
class real_faults {
public:
  /// `operators` is the address of a node's endpoint for operators. The
  /// arguments outlive this object.
  real_faults(const loaded_scenario& what, std::string operators,
              std::map<std::string, std::unique_ptr<service>>& services);

  /// Makes the faults that are due `since` the begin of the workload. Errors:
  /// unavailable when a node does not answer.
  result<void> apply(microseconds since);

private:
  struct step {
    microseconds at{0};
    const fault_spec* what = nullptr;
    bool ends = false;
    std::vector<std::string> nodes{}; ///< of a fault that ends
  };

  result<void> make(step& x);
  result<std::vector<std::string>> nodes_for(const fault_spec& x) const;
  result<void> slow(const std::string& node, double factor) const;

  const loaded_scenario& what_;
  std::string operators_;
  std::map<std::string, std::unique_ptr<service>>& services_;
  std::vector<step> steps_; ///< in order of time
  size_t next_ = 0;
};

} // namespace millrace
