// SPDX-License-Identifier: Apache-2.0
#include "millrace/child.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace millrace {

child::child(std::vector<std::string> arguments) {
  std::string program = "millrace";
  std::vector<char*> argv{program.data()};
  for (auto& x : arguments)
    argv.push_back(x.data());
  argv.push_back(nullptr);
  int ends[2];
  if (::pipe(ends) != 0)
    return;
  pid_ = ::fork();
  if (pid_ == 0) { // only what may be called between fork and exec
    ::dup2(ends[1], 1);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  out_ = ends[0];
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
