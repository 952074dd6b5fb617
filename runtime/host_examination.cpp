// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_examination.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <link.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// The first line of a file in /proc or /sys.
std::optional<std::string> first_line(const std::string& path) {
  std::ifstream in{path};
  std::string out;
  return std::getline(in, out) ? std::optional{out} : std::nullopt;
}

std::optional<uint64_t> number_at(const std::string& path) {
  auto line = first_line(path);
  return line ? number_in<uint64_t>(*line) : std::nullopt;
}

/// A value from a line "NAME: N kB" of /proc/meminfo or /proc/self/status.
std::optional<uint64_t> named_number(const std::string& path,
                                     const std::string& name) {
  std::ifstream in{path};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) {
      std::istringstream rest{line.substr(name.size() + 1)};
      uint64_t out = 0;
      return rest >> out ? std::optional{out} : std::nullopt;
    }
  return std::nullopt;
}

class examiner {
public:
  explicit examiner(const std::string& folder) : folder_(folder) {}

  std::vector<finding> run() {
    look_at_files();
    look_at_locked_memory();
    look_at_threads();
    look_at_cores();
    look_at_memory();
    look_at_disk();
    look_at_huge_pages();
    look_at_landlock();
    look_at_clock();
    look_at_sockets();
    look_at_libraries();
    return std::move(out_);
  }

private:
  void add(std::string what, std::string found) {
    out_.push_back({std::move(what), verdict::good, std::move(found), {}});
  }
  void add(std::string what, verdict how, std::string found,
           std::string advice) {
    out_.push_back({std::move(what), how, std::move(found),
                    how == verdict::good ? std::string{} : std::move(advice)});
  }

  /// Each client connection and each mapped model uses a file.
  void look_at_files() {
    rlimit x{};
    if (::getrlimit(RLIMIT_NOFILE, &x) != 0)
      return;
    // Since Linux 6.2 the size of the folder is the number of open files. On
    // older kernels the number is left out: counting many entries takes long.
    struct stat open {};
    auto known = ::stat("/proc/self/fd", &open) == 0 && open.st_size > 0;
    add("open files",
        x.rlim_cur < 1024   ? verdict::bad
        : x.rlim_cur < 4096 ? verdict::notice
                            : verdict::good,
        (known ? std::to_string(open.st_size) + " of " : "at most ")
          + std::to_string(x.rlim_cur),
        "each client connection is a file: ulimit -n 65536, or LimitNOFILE= of"
        " the systemd unit");
  }

  void look_at_locked_memory() {
    rlimit x{};
    if (::getrlimit(RLIMIT_MEMLOCK, &x) != 0)
      return;
    auto all = x.rlim_cur == RLIM_INFINITY;
    add("locked memory",
        all || x.rlim_cur >= (64u << 20) ? verdict::good : verdict::notice,
        all ? "unlimited" : "at most " + format_bytes(x.rlim_cur),
        "staging memory for a GPU is locked: ulimit -l unlimited (not needed"
        " for cpu devices)");
  }

  void look_at_threads() {
    rlimit x{};
    auto mine = named_number("/proc/self/status", "Threads");
    auto most = number_at("/proc/sys/kernel/threads-max");
    if (::getrlimit(RLIMIT_NPROC, &x) != 0 || !mine || !most)
      return;
    auto allowed = std::min<uint64_t>(x.rlim_cur, *most);
    add("threads", allowed < 512 ? verdict::bad : verdict::good,
        std::to_string(*mine) + " of " + std::to_string(allowed),
        "each device, and each model in a process, needs threads: ulimit -u"
        " 4096");
  }

  /// Load from other processes on the same cores shows in loadavg.
  void look_at_cores() {
    auto cores = std::max(1l, ::sysconf(_SC_NPROCESSORS_ONLN));
    auto load = first_line("/proc/loadavg");
    auto now = load ? std::strtod(load->c_str(), nullptr) : 0.0;
    auto text = std::to_string(cores) + ", " + format_number(now)
                + " wanted over the last minute";
    auto quota = first_line("/sys/fs/cgroup/cpu.max");
    if (quota && !quota->starts_with("max"))
      text += ", limited to " + *quota + " us";
    add("cores",
        now > 2.0 * static_cast<double>(cores) ? verdict::notice
                                               : verdict::good,
        text,
        "more threads are ready to run than there are cores, so answers are"
        " delayed");
  }

  void look_at_memory() {
    auto all = named_number("/proc/meminfo", "MemTotal");
    auto free = named_number("/proc/meminfo", "MemAvailable");
    if (!all || !free)
      return;
    add("memory",
        *free * 20 < *all   ? verdict::bad
        : *free * 10 < *all ? verdict::notice
                            : verdict::good,
        format_bytes(*free * 1024) + " of " + format_bytes(*all * 1024)
          + " available",
        "little memory is available: unload a model, or place fewer models"
        " here (devices[].memory)");
  }

  /// The journals of a node take up to about 80 MiB.
  void look_at_disk() {
    struct statvfs x {};
    if (::statvfs(folder_.c_str(), &x) != 0)
      return;
    auto free = x.f_bavail * x.f_frsize;
    // Some file systems count no inodes.
    auto no_names = x.f_files != 0 && x.f_favail == 0;
    add("disk",
        free < (64u << 20) || no_names ? verdict::bad
        : free < (512u << 20)          ? verdict::notice
                                       : verdict::good,
        format_bytes(free) + " of " + format_bytes(x.f_blocks * x.f_frsize)
          + " free for " + folder_,
        "changes that cannot be written are refused, and events are kept only"
        " in memory: free some space");
  }

  void look_at_huge_pages() {
    auto mode = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
    if (!mode)
      return;
    auto from = mode->find('['), to = mode->find(']');
    auto chosen = from == std::string::npos || to == std::string::npos
                    ? *mode
                    : mode->substr(from + 1, to - from - 1);
    auto reserved = named_number("/proc/meminfo", "HugePages_Total");
    add("huge pages", chosen == "never" ? verdict::notice : verdict::good,
        "transparent: " + chosen
          + ", reserved: " + std::to_string(reserved.value_or(0)),
        "weights are read faster with huge pages: echo madvise >"
        " /sys/kernel/mm/transparent_hugepage/enabled");
  }

  /// Landlock and seccomp together deny files to untrusted models.
  void look_at_landlock() {
    auto version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
    add("landlock", version < 1 ? verdict::notice : verdict::good,
        version < 1 ? "not available" : "version " + std::to_string(version),
        "only seccomp denies files to untrusted models: boot with"
        " lsm=landlock,...");
  }

  void look_at_clock() {
    auto source = first_line(
      "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    timex x{};
    auto state = ::adjtimex(&x); // a read-only call
    auto synchronised = state >= 0 && (x.status & STA_UNSYNC) == 0;
    auto slow = source && *source != "tsc" && *source != "kvm-clock"
                && *source != "arch_sys_counter"
                && *source != "hyperv_clocksource_tsc_page";
    add("clock", slow || !synchronised ? verdict::notice : verdict::good,
        source.value_or("unknown")
          + (synchronised ? ", synchronised" : ", not synchronised"),
        slow ? "each read of this clock is a system call; use tsc"
             : "log times of different hosts will not match: run an NTP client"
               " (deadlines do not depend on the wall clock)");
  }

  void look_at_sockets() {
    auto waiting = number_at("/proc/sys/net/core/somaxconn");
    if (waiting)
      add("waiting connections",
          *waiting < 1024 ? verdict::notice : verdict::good,
          "at most " + std::to_string(*waiting),
          "many clients at once are refused: sysctl net.core.somaxconn=4096");
    if (auto ports = first_line("/proc/sys/net/ipv4/ip_local_port_range")) {
      std::replace(ports->begin(), ports->end(), '\t', ' ');
      add("ports for connections", *ports);
    }
  }

  /// The names of the loaded files contain the versions.
  void look_at_libraries() {
    std::vector<std::string> paths;
    ::dl_iterate_phdr(
      [](dl_phdr_info* x, size_t, void* to) {
        if (x->dlpi_name != nullptr)
          static_cast<std::vector<std::string>*>(to)->push_back(x->dlpi_name);
        return 0;
      },
      &paths);
    constexpr std::array wanted{"libcaf_core", "libzmq",        "libtorch_cpu",
                                "libcudart",   "libsodium",     "libcrypto",
                                "libyaml-cpp", "libprometheus", "libmimalloc"};
    std::string text;
    for (auto& path : paths) {
      std::error_code none;
      auto real = std::filesystem::canonical(path, none);
      auto name = real.filename().string();
      if (std::none_of(wanted.begin(), wanted.end(),
                       [&](auto* x) { return name.starts_with(x); }))
        continue;
      text += (text.empty() ? "" : " ") + name;
    }
    if (!text.empty())
      add("libraries", text);
  }

  const std::string& folder_;
  std::vector<finding> out_;
};

} // namespace

std::vector<finding> examine_host(const std::string& folder) {
  return examiner{folder}.run();
}

} // namespace millrace
