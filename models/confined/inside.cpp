// SPDX-License-Identifier: Apache-2.0
#include "models/confined/inside.hpp"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <malloc.h>
#include <memory>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include "models/backend/backend.hpp"
#include "models/confined/confinement.hpp"
#include "models/confined/orders.hpp"
#include "models/confined/sanitized.hpp"
#include "models/confined/stage_life.hpp"
#include "runtime/records.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace::confined {

namespace {

/// Ties this process to its template: it ends when the template ends.
bool end_with(pid_t parent) {
  return ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
}

/// Raises the OOM score: the kernel kills this process before its node.
void offer_itself() {
  if (auto* file = std::fopen("/proc/self/oom_score_adj", "we")) {
    std::fputs("500", file);
    std::fclose(file);
  }
}

/// Closes all descriptors but the life line. Output of a model is discarded;
/// output of a sanitizer is not.
void close_all_but(file_descriptor& life) {
  constexpr int kept = 3;
  file_descriptor nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  for (auto fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fd != STDERR_FILENO || !sanitized)
      ::dup2(nothing.get(), fd);
  if (life.get() != kept) {
    ::dup3(life.get(), kept, O_CLOEXEC);
    life = file_descriptor{kept};
  }
  ::close_range(kept + 1, ~0u, 0);
}

/// Runs a stage in a shared process, from its first order to its end.
void live_as_guest(process_environment& environment,
                   const file_descriptor& life) {
  life_order order;
  std::vector<file_descriptor> files;
  if (receive_record(life, order, far_future, &files) == received::record
      && order.what == life_order::load)
    live_as_stage(environment, life, order, std::move(files));
}

/// Starts a stage on a thread of its own, which ends with the stage. `presence`
/// is closed when all resources of the stage are freed.
void begin_guest(process_environment& environment, file_descriptor life,
                 file_descriptor presence) {
  auto mine = std::make_shared<file_descriptor>(std::move(life));
  try {
    std::thread{[&environment, mine, presence = std::move(presence)]() mutable {
      name_this_thread("stage");
      live_as_guest(environment, *mine);
      *mine = file_descriptor{};
      presence = file_descriptor{};
    }}.detach();
  } catch (const std::system_error& x) {
    load_answer none;
    say(none.text, std::string{"no room for the model: "} + x.what());
    send_record(*mine, none);
  }
}

/// Adds stages to a shared process as they arrive, each on its own threads.
void host_stages(process_environment& environment, const file_descriptor& line,
                 life_order order, std::vector<file_descriptor> files) {
  ::mallopt(M_ARENA_MAX, most_heaps);
  do {
    if (order.what != life_order::beside || files.size() != 2)
      return;
    // Before there are other threads. If this fails, the stage reports it.
    static_cast<void>(environment.prepare(order));
    begin_guest(environment, std::move(files[0]), std::move(files[1]));
    files.clear();
  } while (receive_record(line, order, far_future, &files) == received::record);
}

void live(process_environment& environment, const file_descriptor& life) {
  life_order order;
  std::vector<file_descriptor> files;
  if (receive_record(life, order, far_future, &files) != received::record)
    return;
  if (order.what == life_order::take_apart)
    take_apart_for_node(environment, order, std::move(files));
  else if (order.what == life_order::load)
    live_as_stage(environment, life, order, std::move(files));
  else
    host_stages(environment, life, order, std::move(files));
}

[[noreturn]] void be_confined(file_descriptor life, pid_t parent,
                              uint32_t user) {
  offer_itself();
  close_all_but(life);
  // The user comes first: a change of the user resets PR_SET_PDEATHSIG.
  process_environment environment{become_user(user)};
  if (end_with(parent))
    live(environment, life);
  ::_exit(0); // ends the lanes' threads in any state
}

/// Children that the template has to forget and that have not ended yet.
class ending_children {
public:
  /// Sets the answer's fields if the process has ended.
  void forget(pid_t process, template_answer& answer) {
    std::erase_if(ids_,
                  [](auto id) { return ::waitpid(id, nullptr, WNOHANG) != 0; });
    auto found = ::waitpid(process, &answer.status, WNOHANG);
    if (found == process)
      answer.process = process;
    else if (found == 0)
      ids_.push_back(process);
  }

private:
  std::vector<pid_t> ids_;
};

} // namespace

int be_template(file_descriptor node, bool with_gpus) {
  // Closes descriptors that the node did not mark close-on-exec.
  ::close_range(static_cast<unsigned>(node.get()) + 1, ~0u, 0);
  // These signals are for the node, which ends this process after it has
  // drained.
  for (auto x : {SIGINT, SIGTERM, SIGHUP})
    std::signal(x, SIG_IGN);
  greeting hello;
  auto runner = torch_backend(code_trust::none);
  result<void> able = runner ? result<void>{} : runner.failure();
  if (able && with_gpus)
    if (auto gpus = gpus_of(**runner); !gpus)
      able = gpus.failure();
  hello.able = static_cast<bool>(able);
  say(hello.text, able ? (*runner)->describe() : able.failure().text);
  if (runner) // reads the processor type, which confined processes cannot
    (*runner)->enter_thread(1);
  if (runner && (*runner)->gpus() != nullptr && with_gpus)
    // On failure each process does it.
    static_cast<void>((*runner)->gpus()->prepare());
  if (!send_record(node, hello) || !hello.able)
    return 1;
  auto self = ::getpid();
  auto user = sandbox_user(::getppid());
  template_order order;
  ending_children ending;
  for (;;) {
    std::vector<file_descriptor> files;
    if (receive_record(node, order, far_future, &files) != received::record)
      return 0;
    template_answer answer;
    if (order.what == template_order::fork && files.size() == 1) {
      answer.process = ::fork();
      if (answer.process == 0)
        be_confined(std::move(files.front()), self, user);
    } else if (order.process > 0) {
      ending.forget(order.process, answer);
    }
    if (!send_record(node, answer))
      return 0;
  }
}

} // namespace millrace::confined
