// SPDX-License-Identifier: Apache-2.0
#include "models/confined/process_state.hpp"

#include <sstream>
#include <string>
#include <unistd.h>

#include "runtime/bytes.hpp"

namespace millrace::confined {

process_state look_at(pid_t process) {
  process_state out;
  auto text = read_file("/proc/" + std::to_string(process) + "/stat", 4096);
  auto name_end = text ? text->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) // the process name may contain ')'
    return out;
  std::istringstream in{text->substr(name_end + 1)};
  std::string state, ignored;
  in >> state;
  out.stopped = state == "T" || state == "t";
  for (int i = 4; i < 20; ++i)
    in >> ignored;
  in >> out.threads;
  return out;
}

uint64_t private_bytes_of(pid_t process) {
  auto text = read_file("/proc/" + std::to_string(process) + "/statm", 4096);
  std::istringstream in{text ? *text : std::string{}};
  uint64_t all = 0, resident = 0, of_files = 0; // pages
  if (!(in >> all >> resident >> of_files) || of_files > resident)
    return 0;
  return (resident - of_files) * static_cast<uint64_t>(::getpagesize());
}

} // namespace millrace::confined
