// SPDX-License-Identifier: Apache-2.0
#include "models/confined/confinement.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <grp.h>
#include <memory>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "models/confined/sanitized.hpp"
#include "runtime/bytes.hpp"

namespace millrace::confined {

namespace {

constexpr unsigned nobody = 65534;
constexpr rlim_t most_descriptors = 512;
constexpr rlim_t most_of_many = 8192; ///< for a process shared by stages

error refused(const char* what) {
  return {ec::unavailable, std::string{"cannot confine a process: "} + what
                             + ": " + std::strerror(errno)};
}

/// Bytes of address space that this process has mapped.
result<uint64_t> mapped_bytes() {
  auto text = read_file("/proc/self/statm", 4096);
  if (!text)
    return text.failure();
  return std::strtoull(text->c_str(), nullptr, 10)
         * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

result<void> limit(int what, rlim_t most) {
  rlimit both{most, most};
  if (::setrlimit(static_cast<__rlimit_resource>(what), &both) != 0)
    return refused("limits");
  return {};
}

/// The limit, at most the current hard limit.
rlim_t possible(rlim_t wanted) {
  rlimit now{};
  return ::getrlimit(RLIMIT_NOFILE, &now) == 0 ? std::min(wanted, now.rlim_max)
                                               : wanted;
}

result<void> set_limits(byte_count memory, bool with_gpu, bool shared) {
  auto mapped = mapped_bytes();
  if (!mapped)
    return std::move(mapped.failure()).within("cannot confine a process");
  if (!sanitized && !with_gpu)
    if (auto done = limit(RLIMIT_AS, *mapped + memory.value); !done)
      return done;
  for (auto what : {RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_MSGQUEUE, RLIMIT_MEMLOCK})
    if (auto done = limit(what, 0); !done)
      return done;
  return limit(RLIMIT_NOFILE,
               shared ? possible(most_of_many) : most_descriptors);
}

/// The record of landlock_create_ruleset(2), which Debian's header declares
/// incompletely (Documentation/userspace-api/landlock.rst).
struct landlock_rules {
  uint64_t files = 0;
  uint64_t network = 0;
  uint64_t scopes = 0;
};

/// Calls that threads need to compute, to wait, to start and end threads of
/// this process, and to use open connections.
constexpr int allowed_calls[] = {
  SCMP_SYS(brk),
  SCMP_SYS(clock_getres),
  SCMP_SYS(clock_gettime),
  SCMP_SYS(clock_nanosleep),
  SCMP_SYS(close),
  SCMP_SYS(exit),
  SCMP_SYS(exit_group),
  SCMP_SYS(futex),
  SCMP_SYS(get_mempolicy),
  SCMP_SYS(getcpu),
  SCMP_SYS(getpid),
  SCMP_SYS(getrandom),
  SCMP_SYS(getrusage),
  SCMP_SYS(gettid),
  SCMP_SYS(gettimeofday),
  SCMP_SYS(lseek),
  SCMP_SYS(madvise),
  SCMP_SYS(mmap),
  SCMP_SYS(mprotect),
  SCMP_SYS(mremap),
  SCMP_SYS(munmap),
  SCMP_SYS(nanosleep),
  SCMP_SYS(poll),
  SCMP_SYS(ppoll),
  SCMP_SYS(read),
  SCMP_SYS(recvmsg),
  SCMP_SYS(restart_syscall),
  SCMP_SYS(rseq),
  SCMP_SYS(rt_sigaction),
  SCMP_SYS(rt_sigprocmask),
  SCMP_SYS(rt_sigreturn),
  SCMP_SYS(sched_getaffinity),
  SCMP_SYS(sched_getparam),
  SCMP_SYS(sched_getscheduler),
  SCMP_SYS(sched_yield),
  SCMP_SYS(sendmsg),
  SCMP_SYS(set_robust_list),
  SCMP_SYS(set_tid_address),
  SCMP_SYS(sigaltstack),
  SCMP_SYS(sysinfo),
  SCMP_SYS(time),
  SCMP_SYS(uname),
  SCMP_SYS(write),
  SCMP_SYS(writev),
};

/// Calls of a GPU's driver in a process that has opened the GPU.
constexpr int calls_of_gpus[] = {
  SCMP_SYS(ioctl),
};

result<void> deny_calls(bool with_gpu) {
  std::unique_ptr<void, decltype(&seccomp_release)> filter{
    seccomp_init(SCMP_ACT_ERRNO(EPERM)), &seccomp_release};
  if (!filter)
    return refused("a filter of system calls");
  auto* f = filter.get();
  int failed = 0;
  auto allow = [&](int call, auto... conditions) {
    failed |= seccomp_rule_add(f, SCMP_ACT_ALLOW, call, sizeof...(conditions),
                               conditions...);
  };
  for (auto call : allowed_calls)
    allow(call);
  if (with_gpu)
    for (auto call : calls_of_gpus)
      allow(call);
  auto self = static_cast<scmp_datum_t>(::getpid());
  // Allows threads, not processes. Without clone3, glibc falls back to clone.
  allow(SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ,
                                 CLONE_THREAD | CLONE_NEWUSER, CLONE_THREAD));
  failed |= seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
  // Allows a thread to lower its own priority to the minimum.
  allow(SCMP_SYS(setpriority), SCMP_A0(SCMP_CMP_EQ, PRIO_PROCESS),
        SCMP_A1(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 19));
  // Allows abort() to end the process.
  allow(SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, self));
  allow(SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
  if (sanitized)
    for (auto call : {SCMP_SYS(openat), SCMP_SYS(readlink), SCMP_SYS(fstat),
                      SCMP_SYS(newfstatat), SCMP_SYS(prctl)})
      allow(call);
  // Applies the filter to all existing threads.
  failed |= seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
  // Another architecture's calls have other numbers: such a call kills.
  failed |= seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  if (failed != 0 || seccomp_load(f) != 0)
    return refused("a filter of system calls");
  return {};
}

} // namespace

result<void> deny_files() {
  constexpr uint64_t by_version[] = {0, 13, 14, 15, 15, 16};
  auto version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  if (version < 1)
    return {};
  landlock_rules rules;
  auto rights = by_version[std::min<long>(version, 5)];
  rules.files = (uint64_t{1} << rights) - 1;
  rules.network = version >= 4 ? 3 : 0;
  rules.scopes = version >= 6 ? 3 : 0;
  auto known = version >= 6   ? sizeof rules
               : version >= 4 ? 2 * sizeof(uint64_t)
                              : sizeof(uint64_t);
  file_descriptor set{
    static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, known, 0))};
  if (!set || ::syscall(SYS_landlock_restrict_self, set.get(), 0) != 0)
    return refused("Landlock");
  return {};
}

uint32_t sandbox_user(int node_process) {
  constexpr uint32_t range = 0x7000'0000;
  return std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr
           ? nobody
           : range + static_cast<uint32_t>(node_process);
}

result<void> become_user(uint32_t id) {
  if (::geteuid() != 0)
    return {};
  if (::setgroups(0, nullptr) != 0 || ::setresgid(id, id, id) != 0
      || ::setresuid(id, id, id) != 0)
    return refused("a user of its own");
  return {};
}

result<void> confine(byte_count memory, bool with_gpu, bool shared) {
  if (auto done = set_limits(memory, with_gpu, shared); !done)
    return done;
  if (::prctl(PR_SET_DUMPABLE, 0) != 0
      || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return refused("no new privileges");
  if (auto done = deny_files(); !done)
    return done;
  return deny_calls(with_gpu);
}

} // namespace millrace::confined
