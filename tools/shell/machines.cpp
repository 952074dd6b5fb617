// SPDX-License-Identifier: Apache-2.0

/// \file
/// The command `machines`: machines of pools, and their costs.

#include <iostream>

#include "runtime/units.hpp"
#include "shell/ask.hpp"
#include "shell/views.hpp"

namespace millrace {

table machine_rows(const machine_list& machines) {
  table rows{{"MACHINE", "POOL", "STATE", "SINCE", "LEASES", "PRICE",
              "RESERVED", "USED"}};
  auto bill = [](microseconds time, double cost) {
    return format_duration(time) + ", " + fixed(cost, 2);
  };
  for (auto& m : machines.machines)
    rows.push_back({m.machine, m.pool, std::string{to_string(m.condition)},
                    format_duration(m.since) + " ago", std::to_string(m.leases),
                    fixed(m.price, 2) + "/h",
                    bill(m.reserved, m.cost_reserved()),
                    bill(m.used, m.cost_used())});
  return rows;
}

int show_machines(shell& in, const arguments&) {
  auto list =
    ask_controller<machine_list>(in.cluster, "provider", get_machines{});
  if (!list && list.failure().text.starts_with("no actor "))
    return complain(in, "the cluster has no pools: machines are simulated only"
                        " (see pools in config/SCENARIOS.md)");
  if (!list)
    return complain(in, list.failure().text);
  if (in.form == output_form::json)
    return print_json(to_json(*list));
  if (list->machines.empty())
    std::cout << "no machine was requested yet" << std::endl;
  else
    print_table(machine_rows(*list));
  return exit_ok;
}

} // namespace millrace
