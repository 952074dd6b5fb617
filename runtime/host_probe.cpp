// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_probe.hpp"

#include <fstream>
#include <string>

#include <ctime>
#include <unistd.h>

#include "runtime/copies.hpp"

namespace millrace {

namespace {

/// The first line of /proc/stat: time per kind of work, in ticks.
void read_cores(host_reading& out) {
  std::ifstream in{"/proc/stat"};
  std::string cpu;
  in >> cpu;
  double all = 0, idle = 0, ticks = 0;
  // user nice system idle iowait irq softirq steal; what follows is in user.
  for (int kind = 0; kind < 8 && in >> ticks; ++kind) {
    all += ticks;
    if (kind == 3 || kind == 4)
      idle += ticks;
  }
  auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  out.total_seconds = all / per_second;
  out.busy_seconds = (all - idle) / per_second;
}

void read_memory(host_reading& out) {
  std::ifstream mine{"/proc/self/statm"};
  uint64_t size = 0, resident = 0;
  if (mine >> size >> resident)
    out.resident = resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  std::ifstream host{"/proc/meminfo"};
  std::string key, unit;
  for (uint64_t kib = 0; host >> key >> kib >> unit;)
    if (key == "MemTotal:") {
      out.memory = kib * 1024;
    } else if (key == "MemAvailable:") {
      out.available = kib * 1024;
      return;
    }
}

} // namespace

host_reading read_host() {
  host_reading out;
  read_cores(out);
  read_memory(out);
  out.copied = bytes_copied();
  timespec used{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
    out.process_seconds = static_cast<double>(used.tv_sec)
                          + 1e-9 * static_cast<double>(used.tv_nsec);
  return out;
}

} // namespace millrace
