// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/checker.hpp"
#include "config/scenario.hpp"

namespace millrace {

/// Checks the faults of a scenario, after its hosts were expanded to nodes.
class fault_checker : protected config_checker {
public:
  fault_checker(const yaml_reader& reader, const loaded_scenario& scenario)
    : config_checker(reader),
      x_(scenario) {}

protected:
  void check_faults();
  void known_bundle(const std::string& key, const std::string& name);

private:
  void check_times(const std::string& key, const fault_spec& fault);
  void check_actor(const std::string& key, const fault_spec& fault);
  void check_places(const std::string& key, const fault_spec& fault);
  void check_place(const std::string& key, const std::string& name,
                   fault_kind kind);

  const loaded_scenario& x_;
};

} // namespace millrace
