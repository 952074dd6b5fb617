// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_probe.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <ctime>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/copies.hpp"

namespace millrace {

namespace {

/// Reads the first line of /proc/stat: ticks for each kind of work.
void read_cores(host_reading& out) {
  std::ifstream in{"/proc/stat"};
  std::string cpu;
  in >> cpu;
  double all = 0, idle = 0, ticks = 0;
  // user nice system idle iowait irq softirq steal; the later columns are
  // included in user.
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

/// Above the number of replicas that the devices of one node can have.
constexpr size_t processes_max = 65'536;

double seconds_of(const timeval& x) {
  return static_cast<double>(x.tv_sec) + 1e-6 * static_cast<double>(x.tv_usec);
}

/// Ids of the children of a process, given its folder in /proc. The kernel
/// lists a child under the thread that started it.
std::vector<std::string> children_of(const std::string& process) {
  std::vector<std::string> out;
  std::error_code gone;
  std::filesystem::directory_iterator threads{process + "/task", gone};
  for (; !gone && threads != std::filesystem::directory_iterator{};
       threads.increment(gone)) {
    std::ifstream in{threads->path() / "children"};
    for (std::string id; in >> id;)
      out.push_back(id);
  }
  return out;
}

/// Adds the usage of a process and its ended children: stat and statm of
/// proc(5).
void add_process(children_reading& out, const std::string& folder) {
  std::ifstream in{folder + "/stat"};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  auto name_end = text.rfind(')'); // the name may contain any character
  if (name_end == std::string::npos)
    return;
  std::istringstream fields{text.substr(name_end + 1)};
  std::string ignored;
  for (int i = 3; i < 14; ++i)
    fields >> ignored;
  // utime stime cutime cstime
  double ticks = 0;
  for (int i = 0; i < 4 && fields >> ticks; ++i)
    out.seconds += ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::ifstream memory{folder + "/statm"};
  uint64_t size = 0, resident = 0;
  if (memory >> size >> resident)
    out.resident += resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// The number at the start of a file; nullopt for "max" or an empty file.
std::optional<uint64_t> number_of(const std::string& file) {
  std::ifstream in{file};
  uint64_t out = 0;
  return in >> out ? std::optional{out} : std::nullopt;
}

/// Bytes of a group's memory that the kernel can reclaim.
uint64_t reclaimable_in(const std::string& group) {
  std::ifstream in{group + "/memory.stat"};
  std::string key;
  for (uint64_t bytes = 0; in >> key >> bytes;)
    if (key == "inactive_file")
      return bytes;
  return 0;
}

} // namespace

void limit_to_group(host_reading& reading, const std::string& process,
                    const std::string& groups) {
  std::ifstream in{process + "/cgroup"};
  std::string group;
  constexpr std::string_view version_2 = "0::";
  while (std::getline(in, group) && !group.starts_with(version_2))
    ;
  if (!group.starts_with(version_2))
    return;
  group.erase(0, version_2.size());
  for (;; group.erase(group.rfind('/'))) { // this group, then each parent
    auto folder = groups + group;
    if (auto most = number_of(folder + "/memory.max")) {
      auto used = number_of(folder + "/memory.current").value_or(0);
      used -= std::min(used, reclaimable_in(folder));
      reading.memory = std::min(reading.memory, *most);
      reading.available =
        std::min(reading.available, *most - std::min(*most, used));
    }
    if (group.rfind('/') == std::string::npos)
      return;
  }
}

children_reading read_children() {
  children_reading out;
  rusage ended{};
  if (::getrusage(RUSAGE_CHILDREN, &ended) == 0)
    out.seconds = seconds_of(ended.ru_utime) + seconds_of(ended.ru_stime);
  auto found = children_of("/proc/self");
  for (size_t i = 0; i < found.size() && i < processes_max; ++i) {
    auto folder = "/proc/" + found[i];
    add_process(out, folder);
    auto below = children_of(folder);
    found.insert(found.end(), below.begin(), below.end());
  }
  return out;
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
