// SPDX-License-Identifier: Apache-2.0
#include "millrace/simulate_child.hpp"

#include "millrace/child.hpp"

namespace millrace {

child_result simulate_in_child(const std::string& file,
                               const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"simulate", file, "--json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  auto printed = json::parse(child{all}.wait(), nullptr, false);
  child_result out;
  if (printed.is_object() && printed.contains("all"))
    out.found = std::move(printed);
  else if (printed.is_object() && printed.contains("error"))
    out.error = printed["error"].is_string()
                  ? printed["error"].get<std::string>()
                  : printed["error"].dump();
  else
    out.error = "the child process printed no result";
  return out;
}

} // namespace millrace
