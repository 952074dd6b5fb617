// SPDX-License-Identifier: Apache-2.0
#include "models/confined/template_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" { // missing in the headers of glibc 2.36
#include <sys/pidfd.h>
}

#include "runtime/program_folder.hpp"

namespace millrace::confined {

namespace {

/// Limit of a start; LibTorch may be loaded from a slow disk.
constexpr auto start_limit = 60s;

/// Limit of a fork on a busy machine.
constexpr auto answer_limit = 10s;

/// Unresponsive templates that are kept, with their forked processes.
constexpr size_t most_silent = 2;

/// Limit of the end of a process that frees much memory.
constexpr auto end_limit = 2s;

/// The template's descriptor of its connection to the node.
constexpr int connection_there = 3;

/// Prefixes of the environment variables that are passed to the template.
constexpr std::string_view passed_on[] = {"MILLRACE_BACKEND=",
                                          "LD_LIBRARY_PATH=",
                                          "OPENBLAS_",
                                          "OMP_",
                                          "ASAN_OPTIONS=",
                                          "UBSAN_OPTIONS=",
                                          "TSAN_OPTIONS=",
                                          "CUDA_",
                                          "NVIDIA_"};

std::string program_path() {
  return program_folder() + "/millrace-executor";
}

std::vector<char*> environment() {
  std::vector<char*> out;
  for (auto** x = environ; *x != nullptr; ++x)
    for (auto name : passed_on)
      if (std::string_view{*x}.starts_with(name)) {
        out.push_back(*x);
        break;
      }
  out.push_back(nullptr);
  return out;
}

error refused(const std::string& program, const std::string& why) {
  return {ec::unavailable, "cannot start " + program + ": " + why};
}

/// The process id stays valid until the template gets an order to forget it.
result<confined_child> watched(pid_t id, file_descriptor life_line) {
  if (id <= 0)
    return error{ec::unavailable, "the system forks no more processes"};
  file_descriptor ended{::pidfd_open(id, 0)};
  if (!ended)
    return error{ec::unavailable, std::string{"no file to watch a process: "}
                                    + std::strerror(errno)};
  return confined_child{id, std::move(ended), std::move(life_line)};
}

} // namespace

template_process::one::~one() {
  connection = file_descriptor{};
  if (id > 0) { // ends the forked processes too
    ::kill(id, SIGKILL);
    ::waitpid(id, nullptr, 0);
  }
}

/// Sets an unresponsive template aside: a late answer would be taken for the
/// answer to another order.
void template_process::leave_locked() {
  silent_.push_back(std::exchange(now_, std::make_unique<one>()));
  if (silent_.size() > most_silent)
    silent_.pop_front();
}

result<void> template_process::start() {
  std::lock_guard guard{mutex_};
  return start_locked();
}

result<void> template_process::start_locked() {
  now_ = std::make_unique<one>();
  auto program = program_path();
  auto ends = make_connection();
  if (!ends)
    return ends.failure();
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, ends->second.get(),
                                     connection_there);
  std::string number = std::to_string(connection_there);
  std::string gpus = "gpus";
  char* arguments[] = {program.data(), number.data(),
                       with_gpus_ ? gpus.data() : nullptr, nullptr};
  auto failed = ::posix_spawn(&now_->id, program.c_str(), &files, nullptr,
                              arguments, environment().data());
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    now_->id = -1;
    return refused(program, std::strerror(failed));
  }
  ends->second = file_descriptor{};
  greeting hello;
  auto until = steady_now() + start_limit;
  auto came = receive_record(ends->first, hello, until);
  if (came == received::record && hello.able) {
    now_->connection = std::move(ends->first);
    backend_ = text_of(hello.text);
    return {};
  }
  ::kill(now_->id, SIGKILL);
  int status = 0;
  ::waitpid(now_->id, &status, 0);
  now_->id = -1;
  if (came == received::record)
    return refused(program, text_of(hello.text));
  return refused(program, came == received::nothing
                            ? "it took more than a minute"
                            : "it ended with " + end_text(status));
}

std::string template_process::backend() const {
  std::lock_guard guard{mutex_};
  return backend_;
}

bool template_process::ask(const template_order& order,
                           std::span<const int> files,
                           template_answer& answer) {
  auto came = received::ended;
  if (now_->connection && send_record(now_->connection, order, files))
    came =
      receive_record(now_->connection, answer, steady_now() + answer_limit);
  if (came == received::record)
    return true;
  if (came == received::nothing)
    leave_locked();
  return false;
}

result<confined_child> template_process::fork() {
  std::lock_guard guard{mutex_};
  for (auto tries = 2; tries > 0; --tries) {
    // A failed attempt has used up its connection.
    auto life = make_connection();
    if (!life)
      return life.failure();
    std::array files{life->second.get()};
    template_answer answer;
    if (ask({}, files, answer))
      return watched(answer.process, std::move(life->first));
    if (auto done = start_locked(); !done)
      return done.failure();
  }
  return refused(program_path(), "it ended at once");
}

std::optional<int> template_process::end(const confined_child& child) {
  ::pidfd_send_signal(child.ended.get(), SIGKILL, nullptr, 0);
  auto has_ended = wait_for(child.ended, steady_now() + end_limit);
  std::lock_guard guard{mutex_};
  template_answer answer;
  if (!ask({template_order::forget, child.id}, {}, answer) || !has_ended
      || answer.process != child.id)
    return std::nullopt;
  return answer.status;
}

std::string end_text(std::optional<int> status) {
  if (!status)
    return "an unknown status, because its template has ended, too";
  if (WIFSIGNALED(*status)) {
    auto* name = ::sigabbrev_np(WTERMSIG(*status));
    return name == nullptr ? "signal " + std::to_string(WTERMSIG(*status))
                           : "SIG" + std::string{name};
  }
  return "exit status " + std::to_string(WEXITSTATUS(*status));
}

} // namespace millrace::confined
