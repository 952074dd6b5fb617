// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

#include "models/bundle_store.hpp"
#include "models/confined/confined_stage.hpp"
#include "models/confined/confinement.hpp"
#include "models/confined/sanitized.hpp"
#include "runtime/copies.hpp"
#include "tests/support/attempts.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/children.hpp"
#include "tests/support/http.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

timestamp now() {
  return std::chrono::steady_clock::now();
}

/// A stage in a process of its own, and what is told of it.
class confined_model {
public:
  explicit confined_model(std::shared_ptr<const bundle> content,
                          uint32_t lanes = 1, nanoseconds load_limit = 20s,
                          bool in_background = false) {
    REQUIRE(parent_.start());
    confined::stage_settings settings;
    settings.content = std::move(content);
    settings.last_layer = 1;
    settings.max_batch = 4;
    settings.lanes = lanes;
    settings.memory = {uint64_t{2} << 30};
    settings.load_limit = load_limit;
    settings.in_background = in_background;
    stage_ = confined::make_confined_stage(
      parent_, std::move(settings),
      {[this](auto x) { loaded_.set_value(std::move(x)); },
       [this](error x) { lost_.set_value(std::move(x)); }});
  }

  /// One of the tests' bundles.
  explicit confined_model(const std::string& name, uint32_t lanes = 1,
                          bool in_background = false)
    : confined_model(open(name), lanes, 20s, in_background) {}

  result<confined::load_times> loaded() { return loaded_.get_future().get(); }

  confined_model& ready() {
    auto x = loaded();
    INFO((x ? std::string{} : x.failure().text));
    REQUIRE(x);
    return *this;
  }

  result<tensor_list> run(const tensor& x, timestamp until = far_future) {
    return stage_->run({x}, until);
  }

  uint64_t peak_of(const tensor& x) {
    uint64_t peak = 0;
    REQUIRE(stage_->run({x}, far_future, &peak));
    return peak;
  }

  /// Why it was lost, within ten seconds.
  std::string lost() {
    auto x = lost_.get_future();
    REQUIRE(x.wait_for(10s) == std::future_status::ready);
    return x.get().text;
  }

  pid_t process() const {
    auto all = grandchildren_of(::getpid());
    return all.empty() ? 0 : *all.begin();
  }

  /// Ends its process; what runs there fails.
  void give_up() { stage_->give_up(); }

private:
  static std::shared_ptr<const bundle> open(const std::string& name) {
    ::unsetenv("MILLRACE_BACKEND"); // another test of this process may need it
    bundle_store store{TEST_BUNDLES};
    auto x = store.open(name, "", verify::sizes);
    REQUIRE(x);
    return std::make_shared<const bundle>(std::move(*x));
  }

  confined::template_process parent_;
  std::promise<result<confined::load_times>> loaded_;
  std::promise<error> lost_;
  std::unique_ptr<confined::confined_stage> stage_;
};

/// A model whose inputs say what it does; see hostile_backend.cpp.
std::shared_ptr<const bundle> hostile() {
  ::setenv("MILLRACE_BACKEND", HOSTILE_BACKEND, 1);
  bundle out{*make_bundle("hostile")};
  out.info.signature = {
    {{"deeds", dtype::i64, {-1}}}, {{"outcomes", dtype::i64, {-1}}}, -1};
  return std::make_shared<const bundle>(std::move(out));
}

tensor deeds(const std::vector<int64_t>& xs) {
  return *tensor::make(dtype::i64, {static_cast<int64_t>(xs.size())},
                       bytes_of(xs));
}

std::vector<int64_t> numbers_of(const tensor& x) {
  std::vector<int64_t> out(x.data.size() / sizeof(int64_t));
  std::memcpy(out.data(), x.data.data(), x.data.size());
  return out;
}

} // namespace

TEST_CASE("confined: a model gives the same results as in a thread") {
  confined_model model{"affine"};
  auto y = model.ready().run(floats({3, 4}));
  REQUIRE(y);
  REQUIRE(y->size() == 1);
  CHECK((*y)[0].extents == shape{3, 2});
  CHECK(values_of((*y)[0]) == std::vector<float>{24, 58, 48, 146, 72, 234});
}

TEST_CASE("confined: what is larger than the memory that is shared so far goes"
          " through all the same") {
  confined_model model{"identity"};
  model.ready();
  for (int64_t rows : {1, 100'000, 3, 1'000'000}) {
    auto x = floats({rows, 4});
    auto y = model.run(x);
    REQUIRE(y);
    CHECK((*y)[0] == x);
  }
}

TEST_CASE("confined: outputs for which there is no room are fetched") {
  confined_model model{"wide"};
  auto y = model.ready().run(floats({5, 4}));
  REQUIRE(y);
  CHECK((*y)[0].extents == shape{5, 4 * 20'000});
  CHECK(values_of((*y)[0]).back() == 19);
}

TEST_CASE("confined: what runs gave stays as it was while others run") {
  confined_model model{"identity"};
  model.ready();
  auto large = [](int64_t i) { return floats({20'000, 4}, 1000.f * i); };
  auto bytes = large(0).data.size();
  std::vector<tensor> given;
  auto copied_in_a_run = [&] {
    auto before = bytes_copied();
    auto y = model.run(large(std::ssize(given)));
    REQUIRE(y);
    given.push_back(std::move((*y)[0]));
    return bytes_copied() - before;
  };
  for (int i = 0; i < 3; ++i)
    CHECK(copied_in_a_run() == bytes); // in
  for (int i = 0; i < 3; ++i)
    CHECK(copied_in_a_run() == 2 * bytes); // all memory to share is in use
  for (size_t i = 0; i < given.size(); ++i)
    CHECK(given[i] == large(static_cast<int64_t>(i)));
  given.clear();
  CHECK(copied_in_a_run() == bytes);
}

TEST_CASE("confined: outputs are made where they are to lie, once it is known"
          " which these are") {
  confined_model model{"affine"};
  model.ready();
  std::vector<uint64_t> copied;
  for (int64_t rows : {20'000, 20'000, 30'000, 20'000, 30'000}) {
    auto x = floats({rows, 4});
    auto before = bytes_copied();
    auto y = model.run(x);
    REQUIRE(y);
    copied.push_back((bytes_copied() - before) / static_cast<uint64_t>(rows));
    auto all = values_of((*y)[0]);
    CHECK(std::vector<float>{all.begin(), all.begin() + 4}
          == std::vector<float>{24, 58, 48, 146});
  }
  // A row has four numbers, and its result two.
  CHECK(copied == std::vector<uint64_t>{24, 16, 24, 16, 16});
}

TEST_CASE("confined: what a model keeps of its outputs stays as it was") {
  confined_model model{"keeping"};
  model.ready();
  // Larger inputs would lie where smaller ones' outputs are.
  for (int64_t rows : {1000, 1000, 1900, 1000, 1900, 1900}) {
    auto x = floats({rows, 4}, static_cast<float>(rows));
    auto y = model.run(x);
    REQUIRE(y);
    auto in = values_of(x), out = values_of((*y)[0]);
    REQUIRE(in.size() == out.size());
    CHECK(std::equal(in.begin(), in.end(), out.begin(),
                     [](float a, float b) { return 2 * a == b; }));
  }
}

TEST_CASE("confined: a process says what memory a run took") {
  confined_model model{"affine"};
  CHECK(model.ready().peak_of(floats({1000, 4})) == 16'000);
}

TEST_CASE("confined: a model that fails says why and lives on") {
  confined_model model{"picky"};
  auto y = model.ready().run(floats({1, 4}, 1000));
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::internal);
  CHECK(y.failure().text.find("a number above 100") != std::string::npos);
  CHECK(model.run(floats({1, 4})));
}

TEST_CASE("confined: what does not load says why") {
  bundle broken{*make_bundle("broken")};
  confined_model model{std::make_shared<const bundle>(std::move(broken))};
  auto x = model.loaded();
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::internal);
}

TEST_CASE("P14: a model that loops while it is loaded is stopped") {
  bundle x{*hostile()};
  x.info.layers[0].name = "loop";
  auto begin = now();
  confined_model model{std::make_shared<const bundle>(std::move(x)), 1, 300ms};
  auto loaded = model.loaded();
  REQUIRE_FALSE(loaded);
  CHECK(loaded.failure().text.find("not loaded within 300 ms")
        != std::string::npos);
  CHECK(now() - begin < 2s);
  CHECK(model.process() == 0);
}

TEST_CASE("P15: a model that ends its process while it is loaded says how") {
  bundle x{*hostile()};
  x.info.layers[0].name = "crash";
  confined_model model{std::make_shared<const bundle>(std::move(x))};
  auto loaded = model.loaded();
  REQUIRE_FALSE(loaded);
  CHECK(loaded.failure().text.find("while it loaded") != std::string::npos);
}

TEST_CASE("P14: Landlock alone keeps a process from files, ports and others") {
  auto version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  if (version < 6) // of Linux 6.12; without it, seccomp stands alone
    MESSAGE("Landlock here is of version " << version);
  auto child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!confined::deny_files())
      ::_exit(1);
    auto denied = [](int did, int why) { return did < 0 && errno == why; };
    if (version >= 1 && !denied(::open("/etc/passwd", O_RDONLY), EACCES))
      ::_exit(2);
    auto to = loopback(1);
    auto* address = reinterpret_cast<sockaddr*>(&to);
    auto from = ::socket(AF_INET, SOCK_STREAM, 0);
    if (version >= 4 && !denied(::connect(from, address, sizeof to), EACCES))
      ::_exit(3);
    if (version >= 6 && !denied(::kill(::getppid(), 0), EPERM))
      ::_exit(4);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0); // by itself, and what was denied is counted out above
}

TEST_CASE("P14: a loop is stopped when its deadline has passed") {
  confined_model model{"lasting"};
  model.ready();
  auto begin = now();
  auto y = model.run(floats({1, 4}, 2e9f), begin + 300ms);
  auto took = now() - begin;
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::poison);
  CHECK(took >= 300ms);
  CHECK(took < 300ms + 250ms);
  CHECK(model.lost().find("took too long") != std::string::npos);
  auto again = model.run(floats({1, 4}), far_future);
  REQUIRE_FALSE(again);
  CHECK(again.failure().code == ec::unavailable);
}

TEST_CASE("P4: a process that is stopped is ended, and not waited for") {
  confined_model model{"lasting"};
  model.ready();
  auto run = std::async(std::launch::async, [&] {
    return model.run(floats({1, 4}, 2e9f));
  });
  std::this_thread::sleep_for(100ms);
  auto begin = now();
  REQUIRE(::kill(model.process(), SIGSTOP) == 0);
  CHECK(model.lost().find("stopped by a signal") != std::string::npos);
  CHECK(now() - begin < 1s);
  CHECK(run.get().failure().code == ec::poison);
}

TEST_CASE("P15: the end of an idle process is noticed at once") {
  confined_model model{"identity"};
  model.ready();
  auto begin = now();
  REQUIRE(::kill(model.process(), SIGKILL) == 0);
  CHECK(model.lost().find("SIGKILL") != std::string::npos);
  CHECK(now() - begin < 500ms);
}

TEST_CASE("confined: to give a stage up ends its process, whatever it does") {
  confined_model model{"lasting", 2};
  model.ready();
  auto process = model.process();
  CHECK(::kill(process, 0) == 0);
  model.give_up();
  CHECK(::kill(process, 0) != 0);
  CHECK(errno == ESRCH);
}

TEST_CASE("confined: what is loaded in the background serves like others") {
  confined_model model{"affine", 2, true};
  model.ready();
  CHECK(model.run(floats({2, 4})));
  for (auto& entry : std::filesystem::directory_iterator{
         "/proc/" + std::to_string(model.process()) + "/task"})
    CHECK(::getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(
                                        entry.path().filename().string())))
          == ::getpriority(PRIO_PROCESS, 0));
}

TEST_CASE("confined: two lanes of a process run at once") {
  confined_model model{"lasting", 2};
  model.ready();
  auto slow = std::async(std::launch::async, [&] {
    return model.run(floats({1, 4}, 2e9f), now() + 2s);
  });
  std::this_thread::sleep_for(100ms);
  CHECK(model.run(floats({1, 4}, -10)));
  CHECK(slow.wait_for(0s) == std::future_status::timeout);
  model.give_up();
  CHECK_FALSE(slow.get());
}

TEST_CASE("P14: native code in a model's process can do none of what a model"
          " has no need of") {
  confined_model model{hostile()};
  model.ready();
  auto all = attempts();
  CHECK(all.size() >= 80);
  for (size_t i = 0; i < all.size(); ++i) {
    auto y = model.run(deeds({static_cast<int64_t>(i)}));
    INFO(all[i].what);
    REQUIRE(y);
    auto outcome = numbers_of((*y)[0]).at(0);
    if (!confined::sanitized)
      CHECK(outcome == EPERM);
    else if (!all[i].ordinary) // a sanitizer opens files, and looks at them
      CHECK(outcome != 0);
  }
}

TEST_CASE("P14: elsewhere many of these are allowed") {
  size_t ordinary = 0;
  for (auto& x : attempts()) {
    if (!x.ordinary)
      continue;
    ++ordinary;
    INFO(x.what);
    CHECK(x.make() == 0);
  }
  CHECK(ordinary >= 20);
}

TEST_CASE("P14: a model that takes too much memory gets an error") {
  confined_model model{hostile()};
  auto y = model.ready().run(deeds({1002}));
  if (confined::sanitized) // there is no limit of the address space then
    return;
  REQUIRE(y);
  CHECK(numbers_of((*y)[0]) == std::vector<int64_t>{ENOMEM});
}

TEST_CASE("P14: a process that starts threads without end is ended") {
  confined_model model{hostile()};
  static_cast<void>(model.ready().run(deeds({1004})));
  auto why = model.lost();
  INFO(why);
  CHECK(why.find("too many threads") != std::string::npos);
  CHECK(model.process() == 0);
}

TEST_CASE("P15: however a model ends its process, the node lives and says so") {
  struct row {
    int64_t deed;
    const char* how;
  };
  for (auto& [deed, how] :
       {row{1000, "SIG"}, row{1001, "exit status 0"}, row{1003, "SIG"}}) {
    confined_model model{hostile()};
    auto y = model.ready().run(deeds({deed}));
    REQUIRE_FALSE(y);
    CHECK(y.failure().code == ec::poison);
    auto why = model.lost();
    INFO(why);
    if (!confined::sanitized) // which ends with a status of its own
      CHECK(why.find(how) != std::string::npos);
  }
}

TEST_CASE("confined: a template that has ended is started again") {
  confined::template_process parent;
  REQUIRE(parent.start());
  auto first = *children_of(::getpid()).begin();
  REQUIRE(::kill(first, SIGKILL) == 0);
  std::this_thread::sleep_for(100ms);
  auto life = confined::make_connection();
  REQUIRE(life);
  auto process = parent.fork(life->second);
  REQUIRE(process);
  CHECK(*children_of(::getpid()).begin() != first);
  CHECK(children_of(*children_of(::getpid()).begin()).contains(process->id));
}

TEST_CASE("confined: a process is ended also while its template stands still") {
  confined::template_process parent;
  REQUIRE(parent.start());
  auto life = confined::make_connection();
  REQUIRE(life);
  auto process = parent.fork(life->second);
  REQUIRE(process);
  auto mother = *children_of(::getpid()).begin();
  REQUIRE(::kill(mother, SIGSTOP) == 0);
  auto end = std::async([&] { return parent.end(*process); });
  pollfd ended{process->ended.get(), POLLIN, 0};
  CHECK(::poll(&ended, 1, 5000) == 1);
  REQUIRE(::kill(mother, SIGCONT) == 0);
  auto status = end.get();
  REQUIRE(status);
  CHECK(confined::end_text(*status) == "SIGKILL");
  CHECK_FALSE(children_of(mother).contains(process->id)); // nor as a zombie
}

TEST_CASE("confined: a process's environment holds no keys") {
  ::setenv("MILLRACE_KEY", "secret", 1);
  confined::template_process parent;
  REQUIRE(parent.start());
  std::ifstream in{"/proc/" + std::to_string(*children_of(::getpid()).begin())
                   + "/environ"};
  std::string all{std::istreambuf_iterator<char>{in}, {}};
  CHECK(all.find("MILLRACE_KEY") == std::string::npos);
}

TEST_CASE("confined: nothing can be started without a backend") {
  ::setenv("MILLRACE_BACKEND", "/none/such.so", 1);
  confined::template_process parent;
  auto x = parent.start();
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::unavailable);
  CHECK(x.failure().text.find("/none/such.so") != std::string::npos);
}
