// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

#include "models/confined/confinement.hpp"
#include "models/confined/sanitized.hpp"
#include "runtime/copies.hpp"
#include "tests/support/attempts.hpp"
#include "tests/support/confined_model.hpp"
#include "tests/support/http.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

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

TEST_CASE("confined: tensors larger than the current shared memory are"
          " transferred") {
  confined_model model{"identity"};
  model.ready();
  for (int64_t rows : {1, 100'000, 3, 1'000'000}) {
    auto x = floats({rows, 4});
    auto y = model.run(x);
    REQUIRE(y);
    CHECK((*y)[0] == x);
  }
}

TEST_CASE("confined: outputs that exceed the reserved room are fetched") {
  confined_model model{"wide"};
  auto y = model.ready().run(floats({5, 4}));
  REQUIRE(y);
  CHECK((*y)[0].extents == shape{5, 4 * 20'000});
  CHECK(values_of((*y)[0]).back() == 19);
}

TEST_CASE("confined: outputs of earlier runs do not change during later runs") {
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
    CHECK(copied_in_a_run() == bytes); // copies of the input
  for (int i = 0; i < 3; ++i)
    CHECK(copied_in_a_run() == 2 * bytes); // all shared memory is in use
  for (size_t i = 0; i < given.size(); ++i)
    CHECK(given[i] == large(static_cast<int64_t>(i)));
  given.clear();
  CHECK(copied_in_a_run() == bytes);
}

TEST_CASE("confined: outputs are written to their final place after the first"
          " run") {
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
  // A row has four numbers and its output two.
  CHECK(copied == std::vector<uint64_t>{24, 16, 24, 16, 16});
}

TEST_CASE("confined: a tensor that a model keeps from its outputs does not"
          " change") {
  confined_model model{"keeping"};
  model.ready();
  // Larger inputs would overlap the outputs of smaller inputs.
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

TEST_CASE("confined: a process reports the peak memory of a run") {
  confined_model model{"affine"};
  CHECK(model.ready().peak_of(floats({1000, 4})) == 16'000);
}

TEST_CASE("confined: a model that fails reports the reason and continues") {
  confined_model model{"picky"};
  auto y = model.ready().run(floats({1, 4}, 1000));
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::internal);
  CHECK(y.failure().text.find("a number above 100") != std::string::npos);
  CHECK(model.run(floats({1, 4})));
}

TEST_CASE("QU-40: a write to the parameters of a replica is visible to no other"
          " replica and no later one") {
  confined_model one{"tallying"};
  one.ready();
  auto x = floats({1, 4}, 0);
  auto run = [&](confined_model& model) {
    auto y = model.run(x);
    REQUIRE(y);
    return values_of((*y)[0])[0];
  };
  auto first = run(one);
  CHECK(run(one) == first + 1);
  CHECK(run(one) == first + 2);
  confined_model another{"tallying"};
  another.ready();
  CHECK(run(another) == first);
  CHECK(open_bundle(std::string{TEST_BUNDLES} + "/tallying/1", verify::hashes));
}

TEST_CASE("confined: a failed load reports the reason") {
  bundle broken{*make_bundle("broken")};
  confined_model model{std::make_shared<const bundle>(std::move(broken))};
  auto x = model.loaded();
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::internal);
}

TEST_CASE("P14: Landlock alone denies a process files and ports and other"
          " processes") {
  auto version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  if (version < 6) // needs Linux 6.12; otherwise only seccomp applies
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
  CHECK(status == 0); // exited normally; denied actions are checked above
}

TEST_CASE("confined: a model loaded in the background serves with normal"
          " priority") {
  confined_model model{"affine", 2, true};
  model.ready();
  CHECK(model.run(floats({2, 4})));
  for (auto& entry : std::filesystem::directory_iterator{
         "/proc/" + std::to_string(model.process()) + "/task"})
    CHECK(::getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(
                                        entry.path().filename().string())))
          == ::getpriority(PRIO_PROCESS, 0));
}

TEST_CASE("confined: two lanes of a process run concurrently") {
  confined_model model{"lasting", 2};
  model.ready();
  auto slow = std::async(std::launch::async, [&] {
    return model.run(floats({1, 4}, 2e9f), {steady_now() + 2s});
  });
  std::this_thread::sleep_for(100ms);
  CHECK(model.run(floats({1, 4}, -10)));
  CHECK(slow.wait_for(0s) == std::future_status::timeout);
  model.give_up();
  CHECK_FALSE(slow.get());
}

TEST_CASE("P14: native code in the process of a model is denied each forbidden"
          " action in its own and in a shared process") {
  auto all = attempts();
  CHECK(all.size() >= 80);
  for (auto shared : {false, true}) {
    auto content = hostile(); // before a template process loads its backend
    auto environment = std::make_shared<process_environment>(shared);
    confined_model first{environment, content};
    first.ready();
    confined_model model{environment, content};
    model.ready();
    for (size_t i = 0; i < all.size(); ++i) {
      auto y = model.run(deeds({static_cast<int64_t>(i)}));
      INFO(all[i].what);
      REQUIRE(y);
      auto outcome = numbers_of((*y)[0]).at(0);
      if (!confined::sanitized)
        CHECK(outcome == EPERM);
      else if (!all[i].ordinary) // a sanitizer opens and reads files
        CHECK(outcome != 0);
    }
  }
}

TEST_CASE("P14: a process outside the sandbox is allowed many of the forbidden"
          " actions") {
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
  if (confined::sanitized) // a sanitizer removes the limit of the address space
    return;
  REQUIRE(y);
  CHECK(numbers_of((*y)[0]) == std::vector<int64_t>{ENOMEM});
}

TEST_CASE("confined: the environment of a process holds no keys") {
  ::setenv("MILLRACE_KEY", "secret", 1);
  confined::template_process parent;
  REQUIRE(parent.start());
  std::ifstream in{"/proc/" + std::to_string(*children_of(::getpid()).begin())
                   + "/environ"};
  std::string all{std::istreambuf_iterator<char>{in}, {}};
  CHECK(all.find("MILLRACE_KEY") == std::string::npos);
}

TEST_CASE("QU-45: the template process has no device open and no device library"
          " loaded") {
  confined_model model{"affine"};
  model.ready();
  auto parent = *children_of(::getpid()).begin();
  auto folder = "/proc/" + std::to_string(parent);
  for (auto& x : std::filesystem::directory_iterator{folder + "/fd"}) {
    auto name = std::filesystem::read_symlink(x.path()).string();
    CAPTURE(name);
    CHECK((!name.starts_with("/dev/") || name == "/dev/null"));
  }
  std::ifstream in{folder + "/maps"};
  std::string maps{std::istreambuf_iterator<char>{in}, {}};
  CHECK(maps.find("libtorch") != std::string::npos);
  CHECK(maps.find("libcuda.so") == std::string::npos);
}

TEST_CASE("confined: a start without a backend fails") {
  ::setenv("MILLRACE_BACKEND", "/none/such.so", 1);
  confined::template_process parent;
  auto x = parent.start();
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::unavailable);
  CHECK(x.failure().text.find("/none/such.so") != std::string::npos);
}
