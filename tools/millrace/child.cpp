// SPDX-License-Identifier: Apache-2.0
#include "millrace/child.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <poll.h>
#include <sched.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "models/arriving_file.hpp"
#include "runtime/text.hpp"
#include "runtime/time.hpp"

namespace millrace {

std::string millrace_program() {
  std::error_code failed;
  auto self = std::filesystem::read_symlink(this_program, failed);
  // The kernel appends " (deleted)" after an update of the file.
  return self.filename().string().starts_with("millrace-")
           ? (self.parent_path() / "millrace").string()
           : this_program;
}

namespace {

/// Starts a program with these descriptors 1 and 2, in this network namespace;
/// -1 inherits the parent's.
pid_t start(const std::string& program, std::vector<std::string> arguments,
            int out, int err, int network = -1) {
  std::string name = program == this_program ? "millrace" : program;
  std::vector<char*> argv{name.data()};
  for (auto& x : arguments)
    argv.push_back(x.data());
  argv.push_back(nullptr);
  auto pid = ::fork();
  if (pid != 0)
    return pid;
  // Only calls that are allowed between fork and exec. The child ends when the
  // parent ends, for whatever reason.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (network >= 0 && ::setns(network, CLONE_NEWNET) != 0)
    ::_exit(127);
  if (out >= 0)
    ::dup2(out, 1);
  if (err >= 0)
    ::dup2(err, 2);
  ::execvp(program.c_str(), argv.data());
  ::_exit(127);
}

/// The fields of /proc/PID/stat after the program's name: state, parent
/// process, and so on.
std::istringstream fields_of(const std::string& process) {
  std::ifstream in{"/proc/" + process + "/stat"};
  std::string text;
  std::getline(in, text);
  auto name_ends = std::min(text.rfind(')'), text.size());
  return std::istringstream{text.substr(std::min(name_ends + 1, text.size()))};
}

/// All processes: parent to child.
std::multimap<pid_t, pid_t> all_processes() {
  std::multimap<pid_t, pid_t> out;
  std::error_code failed;
  for (auto& x : std::filesystem::directory_iterator{"/proc", failed})
    if (auto pid = number_in<pid_t>(x.path().filename().string())) {
      auto in = fields_of(std::to_string(*pid));
      std::string state;
      pid_t parent = 0;
      if (in >> state >> parent)
        out.emplace(parent, *pid);
    }
  return out;
}

result<held_memory> memory_of(pid_t process) {
  auto path = "/proc/" + std::to_string(process) + "/smaps";
  std::ifstream in{path};
  held_memory out;
  if (!in && ::kill(process, 0) == 0) // the process still runs
    return error{ec::forbidden,
                 path + ": may not be read; root may, with CAP_SYS_PTRACE",
                 {}};
  auto of_weights = false;
  for (std::string line; std::getline(in, line);) {
    auto name = line.substr(0, line.find(' '));
    if (!name.ends_with(':')) // the header of a mapping: address range and file
      of_weights = line.find(arriving_file::memory_name) != std::string::npos;
    if (name != "Pss:")
      continue;
    auto bytes = 1024 * std::strtoull(line.c_str() + name.size(), nullptr, 10);
    out += {bytes, of_weights ? bytes : 0};
  }
  return out;
}

} // namespace

child::child(std::vector<std::string> arguments, const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return;
  pid_ = start(program, std::move(arguments), ends[1], -1);
  ::close(ends[1]);
  out_ = ends[0];
}

service::service(std::vector<std::string> arguments, const std::string& log,
                 const std::string& network, const std::string& program) {
  auto file =
    ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  auto space =
    network.empty() ? -1 : ::open(network.c_str(), O_RDONLY | O_CLOEXEC);
  pid_ = start(program, std::move(arguments), file, file, space);
  ::close(file);
  if (space >= 0)
    ::close(space);
}

void service::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

/// Reads /proc/PID/stat (proc(5)) after the program's name, which may have
/// blanks.
double service::processor_seconds() const {
  auto rest = fields_of(std::to_string(pid_));
  std::string skipped;
  for (int i = 3; i < 14; ++i)
    rest >> skipped;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

result<held_memory> service::memory() const {
  auto all = all_processes();
  held_memory out;
  for (std::vector<pid_t> open{pid_}; !open.empty();) {
    auto process = open.back();
    open.pop_back();
    auto its = memory_of(process);
    if (!its)
      return its;
    out += *its;
    auto [first, last] = all.equal_range(process);
    for (auto i = first; i != last; ++i)
      open.push_back(i->second);
  }
  return out;
}

service::~service() {
  if (pid_ <= 0)
    return;
  ::kill(pid_, SIGTERM);
  int status = 0;
  for (auto until = steady_now() + std::chrono::seconds{10};
       ::waitpid(pid_, &status, WNOHANG) == 0;) {
    if (steady_now() > until)
      ::kill(pid_, SIGKILL);
    ::poll(nullptr, 0, 10);
  }
}

std::string child::wait() {
  std::string text;
  char part[65'536];
  for (ssize_t n = 0; out_ >= 0 && (n = ::read(out_, part, sizeof part)) > 0;)
    text.append(part, static_cast<size_t>(n));
  if (out_ >= 0)
    ::close(out_);
  int status = 0;
  if (pid_ > 0)
    ::waitpid(pid_, &status, 0);
  return text;
}

void do_all(size_t n, const std::function<void(size_t)>& work,
            const std::function<void(size_t)>& progress) {
  std::mutex mutex;
  std::condition_variable changed;
  size_t next = 0, done = 0;
  auto run = [&] {
    std::unique_lock guard{mutex};
    while (next < n) {
      auto mine = next++;
      guard.unlock();
      work(mine);
      guard.lock();
      ++done;
      changed.notify_one();
    }
  };
  auto cores = std::max<size_t>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(cores, n); ++i)
    threads.emplace_back(run);
  for (std::unique_lock guard{mutex}; done < n;) {
    changed.wait(guard);
    progress(done);
  }
  for (auto& t : threads)
    t.join();
}

} // namespace millrace
