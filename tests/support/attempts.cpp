// SPDX-License-Identifier: Apache-2.0
#include "tests/support/attempts.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace millrace::test {

namespace {

/// Converts the return value of a system call to the result of an attempt.
int outcome(long x) {
  return x < 0 ? errno : 0;
}

int opened(long fd) {
  if (fd < 0)
    return errno;
  ::close(static_cast<int>(fd));
  return 0;
}

/// Ends the child at once if the fork was allowed.
int forked(long pid) {
  if (pid == 0)
    ::_exit(0);
  if (pid > 0)
    ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  return outcome(pid);
}

char self[] = "/proc/self/exe";
char* const no_words[] = {nullptr};

constexpr attempt list[] = {
  {"read /etc/passwd", [] { return opened(::open("/etc/passwd", O_RDONLY)); },
   true},
  {"read the environment of init",
   [] { return opened(::open("/proc/1/environ", O_RDONLY)); }},
  {"write its own memory by a file",
   [] { return opened(::open("/proc/self/mem", O_RDWR)); }, true},
  {"make a file in /tmp",
   [] {
     auto fd = ::open("/tmp/millrace-attempt", O_CREAT | O_WRONLY, 0600);
     if (fd >= 0)
       ::unlink("/tmp/millrace-attempt");
     return opened(fd);
   },
   true},
  {"make a file without a name",
   [] { return opened(::open("/tmp", O_TMPFILE | O_RDWR, 0600)); }},
  {"open by openat2",
   [] {
     open_how how{};
     return opened(
       ::syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof how));
   },
   true},
  {"open by handle",
   [] { return opened(::syscall(SYS_open_by_handle_at, 0, nullptr, 0)); }},
  {"list a folder", [] { return opened(::open("/", O_RDONLY | O_DIRECTORY)); },
   true},
  {"look at a file",
   [] {
     struct stat x;
     return outcome(::stat("/etc/passwd", &x));
   },
   true},
  {"ask whether a file is there",
   [] { return outcome(::access("/etc/passwd", R_OK)); }, true},
  {"read a link",
   [] {
     char text[256];
     return outcome(::readlink("/proc/self/exe", text, sizeof text));
   },
   true},
  {"remove a file", [] { return outcome(::unlink("/tmp/none")); }},
  {"rename a file", [] { return outcome(::rename("/tmp/none", "/tmp/nil")); }},
  {"make a folder", [] { return outcome(::mkdir("/tmp", 0700)); }},
  {"remove a folder", [] { return outcome(::rmdir("/tmp/none")); }},
  {"make a symbolic link", [] { return outcome(::symlink("/", "/tmp")); }},
  {"make a link", [] { return outcome(::link("/tmp/none", "/tmp/nil")); }},
  {"make a pipe with a name", [] { return outcome(::mkfifo("/tmp", 0600)); }},
  {"change a file's mode", [] { return outcome(::chmod("/tmp/none", 0777)); }},
  {"change a file's owner", [] { return outcome(::chown("/tmp/none", 1, 1)); }},
  {"cut a file", [] { return outcome(::truncate("/tmp/none", 0)); }},
  {"change the folder", [] { return outcome(::chdir("/")); }, true},
  {"change the root", [] { return outcome(::chroot("/")); }},
  {"mount",
   [] { return outcome(::mount("none", "/mnt", "tmpfs", 0, nullptr)); }},
  {"unmount", [] { return outcome(::umount2("/none", 0)); }},
  {"change the root of all",
   [] { return outcome(::syscall(SYS_pivot_root, "/none", "/none")); }},
  {"open a TCP socket",
   [] { return opened(::socket(AF_INET, SOCK_STREAM, 0)); }, true},
  {"open a UDP socket",
   [] { return opened(::socket(AF_INET6, SOCK_DGRAM, 0)); }},
  {"open a local socket",
   [] { return opened(::socket(AF_UNIX, SOCK_STREAM, 0)); }, true},
  {"open a socket of the kernel's",
   [] { return opened(::socket(AF_NETLINK, SOCK_RAW, 0)); }, true},
  {"open a pair of sockets",
   [] {
     int ends[2];
     auto x = ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
     if (x == 0) {
       ::close(ends[0]);
       ::close(ends[1]);
     }
     return outcome(x);
   },
   true},
  {"connect its connection elsewhere",
   [] {
     sockaddr_un to{AF_UNIX, "/none"};
     return outcome(::connect(3, reinterpret_cast<sockaddr*>(&to), sizeof to));
   }},
  {"bind its connection",
   [] {
     sockaddr_un to{AF_UNIX, "/none"};
     return outcome(::bind(3, reinterpret_cast<sockaddr*>(&to), sizeof to));
   }},
  {"listen", [] { return outcome(::listen(3, 1)); }},
  {"accept", [] { return opened(::accept(3, nullptr, nullptr)); }},
  {"make a pipe",
   [] {
     int ends[2];
     auto x = ::pipe(ends);
     if (x == 0) {
       ::close(ends[0]);
       ::close(ends[1]);
     }
     return outcome(x);
   },
   true},
  {"make a process", [] { return forked(::fork()); }, true},
  {"make a process that shares its memory",
   [] {
     return forked(::syscall(SYS_clone, CLONE_VFORK | SIGCHLD, nullptr, nullptr,
                             nullptr, nullptr));
   },
   true},
  {"make a process in a namespace of its own",
   [] {
     return forked(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr,
                             nullptr, nullptr, nullptr));
   }},
  {"run a program",
   [] { return outcome(::execve("/none/such", no_words, no_words)); }},
  {"run a program that is open",
   [] {
     return outcome(::syscall(SYS_execveat, -1, self, no_words, no_words, 0));
   }},
  {"trace its parent",
   [] { return outcome(::ptrace(PTRACE_ATTACH, ::getppid(), 0, 0)); }},
  {"be traced", [] { return outcome(::ptrace(PTRACE_TRACEME, 0, 0, 0)); }},
  {"read another process's memory",
   [] {
     return outcome(
       ::syscall(SYS_process_vm_readv, ::getppid(), nullptr, 0, nullptr, 0, 0));
   }},
  {"write another process's memory",
   [] {
     return outcome(::syscall(SYS_process_vm_writev, ::getppid(), nullptr, 0,
                              nullptr, 0, 0));
   }},
  {"signal its parent", [] { return outcome(::kill(::getppid(), 0)); }, true},
  {"signal everybody", [] { return outcome(::kill(-1, 0)); }},
  {"signal a thread of another process",
   [] { return outcome(::syscall(SYS_tgkill, 1, 1, 0)); }},
  {"get hold of a process",
   [] { return opened(::syscall(SYS_pidfd_open, ::getppid(), 0)); }, true},
  {"take another's open file",
   [] { return opened(::syscall(SYS_pidfd_getfd, 3, 0, 0)); }},
  {"be root", [] { return outcome(::setuid(0)); }},
  {"be another group", [] { return outcome(::setgid(0)); }},
  {"take privileges",
   [] { return outcome(::syscall(SYS_capset, 0, nullptr)); }},
  {"lift a limit",
   [] {
     rlimit x{RLIM_INFINITY, RLIM_INFINITY};
     return outcome(::setrlimit(RLIMIT_AS, &x));
   }},
  {"change a limit of its parent",
   [] {
     rlimit x{1, 1};
     return outcome(::prlimit(::getppid(), RLIMIT_FSIZE, nullptr, &x));
   }},
  {"leave its namespaces", [] { return outcome(::unshare(CLONE_NEWNET)); }},
  {"enter others", [] { return outcome(::setns(3, 0)); }},
  {"load a program into the kernel",
   [] { return opened(::syscall(SYS_bpf, 0, nullptr, 0)); }},
  {"load a module",
   [] { return outcome(::syscall(SYS_init_module, 0, 0, 0)); }},
  {"load another kernel",
   [] { return outcome(::syscall(SYS_kexec_load, 0, 0, nullptr, 0)); }},
  {"count events of the processor",
   [] {
     return opened(::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0));
   }},
  {"set up asynchronous input",
   [] { return opened(::syscall(SYS_io_uring_setup, 0, nullptr)); }},
  {"use the kernel's keys",
   [] { return outcome(::syscall(SYS_keyctl, 0, 0, 0, 0, 0)); }},
  {"add a key of the kernel's",
   [] { return outcome(::syscall(SYS_add_key, 0, 0, 0, 0, 0)); }},
  {"handle its own page faults",
   [] { return opened(::syscall(SYS_userfaultfd, 0)); }},
  {"make a file of memory",
   [] { return opened(::syscall(SYS_memfd_create, "x", 0)); }, true},
  {"share memory by a key",
   [] { return outcome(::syscall(SYS_shmget, 0, 1, 0)); }},
  {"use a queue by a key", [] { return outcome(::syscall(SYS_msgget, 1, 0)); }},
  {"use a semaphore by a key",
   [] { return outcome(::syscall(SYS_semget, 1, 1, 0)); }},
  {"use a queue by a name",
   [] { return opened(::syscall(SYS_mq_open, "/none", 0, 0, nullptr)); }},
  {"watch files", [] { return opened(::syscall(SYS_inotify_init1, 0)); }, true},
  {"watch all files",
   [] { return opened(::syscall(SYS_fanotify_init, 0, 0)); }},
  {"pretend to be another system",
   [] { return outcome(::syscall(SYS_personality, 0xffffffff)); }, true},
  {"use a processor's ports", [] { return outcome(::syscall(SYS_iopl, 3)); }},
  {"restart the machine",
   [] { return outcome(::syscall(SYS_reboot, 0, 0, 0)); }},
  {"swap", [] { return outcome(::syscall(SYS_swapon, "/none", 0)); }},
  {"rename the host",
   [] { return outcome(::syscall(SYS_sethostname, nullptr, -1)); }},
  {"set the clock",
   [] { return outcome(::syscall(SYS_clock_settime, 0, nullptr)); }},
  {"be scheduled before all",
   [] {
     sched_param x{1};
     return outcome(::sched_setscheduler(0, SCHED_FIFO, &x));
   }},
  {"be nicer to itself",
   [] { return outcome(::setpriority(PRIO_PROCESS, 0, -5)); }},
  {"leave its processors",
   [] {
     cpu_set_t all;
     CPU_ZERO(&all);
     CPU_SET(0, &all);
     return outcome(::sched_setaffinity(0, sizeof all, &all));
   }},
  {"outlive its parent", [] { return outcome(::prctl(PR_SET_PDEATHSIG, 0)); },
   true},
  {"leave its memory to be read",
   [] { return outcome(::prctl(PR_SET_DUMPABLE, 1)); }, true},
  {"take its filter away",
   [] { return outcome(::syscall(SYS_seccomp, 1, 0, nullptr)); }},
  {"speak to a terminal",
   [] { return outcome(::syscall(SYS_ioctl, 0, 0x5412, "x")); }},
  {"double a connection", [] { return opened(::dup(3)); }},
};

} // namespace

std::span<const attempt> attempts() {
  return list;
}

} // namespace millrace::test
