// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_probe.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
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

/// The number that a file begins with; none where it says "max", or nothing.
std::optional<uint64_t> number_of(const std::string& file) {
  std::ifstream in{file};
  uint64_t out = 0;
  return in >> out ? std::optional{out} : std::nullopt;
}

/// Of a group's memory, what the system takes back when it is needed.
uint64_t reclaimable_in(const std::string& group) {
  std::ifstream in{group + "/memory.stat"};
  std::string key;
  for (uint64_t bytes = 0; in >> key >> bytes;)
    if (key == "inactive_file")
      return bytes;
  return 0;
}

} // namespace

void limit_to_group(host_reading& x, const std::string& process,
                    const std::string& groups) {
  std::ifstream in{process + "/cgroup"};
  std::string group;
  constexpr std::string_view version_2 = "0::";
  while (std::getline(in, group) && !group.starts_with(version_2))
    ;
  if (!group.starts_with(version_2))
    return;
  group.erase(0, version_2.size());
  for (;; group.erase(group.rfind('/'))) { // and those that it is in
    auto folder = groups + group;
    if (auto most = number_of(folder + "/memory.max")) {
      auto used = number_of(folder + "/memory.current").value_or(0);
      used -= std::min(used, reclaimable_in(folder));
      x.memory = std::min(x.memory, *most);
      x.available = std::min(x.available, *most - std::min(*most, used));
    }
    if (group.rfind('/') == std::string::npos)
      return;
  }
}

host_reading read_host() {
  host_reading out;
  read_cores(out);
  read_memory(out);
  limit_to_group(out, "/proc/self", "/sys/fs/cgroup");
  out.copied = bytes_copied();
  timespec used{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
    out.process_seconds = static_cast<double>(used.tv_sec)
                          + 1e-9 * static_cast<double>(used.tv_nsec);
  return out;
}

} // namespace millrace
