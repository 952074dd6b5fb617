// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <thread>

#include "models/confined/run_end.hpp"
#include "models/confined/sanitized.hpp"
#include "tests/support/confined_model.hpp"

/// \file
/// The ways in which a process of a model ends, and their detection.

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

TEST_CASE("P14: a model that loops while it is loaded is stopped") {
  bundle x{*hostile()};
  x.info.layers[0].name = "loop";
  auto begin = steady_now();
  confined_model model{std::make_shared<const bundle>(std::move(x)), 1, 300ms};
  auto loaded = model.loaded();
  REQUIRE_FALSE(loaded);
  CHECK(loaded.failure().text.find("did not load it within 300 ms")
        != std::string::npos);
  CHECK(steady_now() - begin < 2s);
  CHECK(model.process() == 0);
}

TEST_CASE("P15: a model that ends its process during its load reports how") {
  bundle x{*hostile()};
  x.info.layers[0].name = "crash";
  confined_model model{std::make_shared<const bundle>(std::move(x))};
  auto loaded = model.loaded();
  REQUIRE_FALSE(loaded);
  CHECK(loaded.failure().text.find("while it loaded") != std::string::npos);
}

TEST_CASE("P14: a loop is stopped when its deadline has passed") {
  confined_model model{"lasting"};
  model.ready();
  auto begin = steady_now();
  auto y = model.run(floats({1, 4}, 2e9f), {begin + 300ms});
  auto took = steady_now() - begin;
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::poison);
  CHECK(took >= 300ms);
  CHECK(took < 300ms + 250ms);
  CHECK(model.lost().find("took too long") != std::string::npos);
  auto again = model.run(floats({1, 4}));
  REQUIRE_FALSE(again);
  CHECK(again.failure().code == ec::unavailable);
}

TEST_CASE("P14: a cancelled loop is stopped after the longer of the load time"
          " and the run limit") {
  auto begin = steady_now();
  confined_model model{"lasting"};
  auto load = model.loaded();
  REQUIRE(load);
  auto limit = steady_now() - begin;
  nanoseconds least = load->load + load->warm_up, usual{0};
  SUBCASE("the load time is longer") {
  }
  SUBCASE("the run limit is longer") {
    usual = limit;
    limit = least = confined::patience * usual;
  }
  std::stop_source unwanted;
  unwanted.request_stop();
  begin = steady_now();
  auto y =
    model.run(floats({1, 4}, 2e9f), {far_future, unwanted.get_token(), usual});
  auto took = steady_now() - begin;
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::poison);
  CHECK(took >= least);
  CHECK(took < limit + 250ms);
  CHECK(model.lost().find("no request waits for") != std::string::npos);
}

TEST_CASE("P15: a run that ends because another run of its process took too"
          " long is cancelled and not poison") {
  confined_model model{"lasting", 2};
  model.ready();
  auto honest = std::async(std::launch::async, [&] {
    return model.run(floats({1, 4}, 2e9f), {steady_now() + 60s});
  });
  auto hangs = model.run(floats({1, 4}, 2e9f), {steady_now() + 300ms});
  REQUIRE_FALSE(hangs);
  CHECK(hangs.failure().code == ec::poison);
  auto y = honest.get();
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::cancelled);
}

TEST_CASE("P4: a process stopped by a signal is ended at once") {
  confined_model model{"lasting"};
  model.ready();
  auto run = std::async(std::launch::async, [&] {
    return model.run(floats({1, 4}, 2e9f));
  });
  std::this_thread::sleep_for(100ms);
  auto begin = steady_now();
  REQUIRE(::kill(model.process(), SIGSTOP) == 0);
  CHECK(model.lost().find("stopped by a signal") != std::string::npos);
  CHECK(steady_now() - begin < 1s);
  CHECK(run.get().failure().code == ec::poison);
}

TEST_CASE("P15: the end of an idle process is noticed at once") {
  confined_model model{"identity"};
  model.ready();
  auto begin = steady_now();
  REQUIRE(::kill(model.process(), SIGKILL) == 0);
  CHECK(model.lost().find("SIGKILL") != std::string::npos);
  CHECK(steady_now() - begin < 500ms);
}

TEST_CASE("confined: giving up a stage ends its busy process") {
  confined_model model{"lasting", 2};
  model.ready();
  auto process = model.process();
  CHECK(::kill(process, 0) == 0);
  model.give_up();
  CHECK(::kill(process, 0) != 0);
  CHECK(errno == ESRCH);
}

TEST_CASE("P14: a process that starts threads without end is ended") {
  confined_model model{hostile()};
  static_cast<void>(model.ready().run(deeds({1004})));
  auto why = model.lost();
  INFO(why);
  CHECK(why.find("too many threads") != std::string::npos);
  CHECK(model.process() == 0);
}

TEST_CASE("P15: a node survives each way in which a model ends its process and"
          " reports the way") {
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
    if (!confined::sanitized) // a sanitizer exits with its own status
      CHECK(why.find(how) != std::string::npos);
  }
}

TEST_CASE("confined: a template process that has ended is started again") {
  confined::template_process parent;
  REQUIRE(parent.start());
  auto first = *children_of(::getpid()).begin();
  REQUIRE(::kill(first, SIGKILL) == 0);
  std::this_thread::sleep_for(100ms);
  auto process = parent.fork();
  REQUIRE(process);
  CHECK(*children_of(::getpid()).begin() != first);
  CHECK(children_of(*children_of(::getpid()).begin()).contains(process->id));
}

namespace {

/// A template process that is stopped after it forked a process.
struct stopped_template {
  stopped_template() {
    REQUIRE(parent.start());
    auto forked = parent.fork();
    REQUIRE(forked);
    process = std::move(*forked);
    mother = *children_of(::getpid()).begin();
    REQUIRE(::kill(mother, SIGSTOP) == 0);
  }

  bool has_ended(int within_ms) const {
    pollfd ended{process.ended.get(), POLLIN, 0};
    return ::poll(&ended, 1, within_ms) == 1;
  }

  confined::template_process parent;
  confined::confined_child process;
  pid_t mother = 0;
};

} // namespace

TEST_CASE("confined: a process is ended while its template process is"
          " stopped") {
  stopped_template x;
  auto end = std::async([&] { return x.parent.end(x.process); });
  CHECK(x.has_ended(5000));
  REQUIRE(::kill(x.mother, SIGCONT) == 0);
  auto status = end.get();
  REQUIRE(status);
  CHECK(confined::end_text(*status) == "SIGKILL");
  CHECK_FALSE(children_of(x.mother).contains(x.process.id)); // nor a zombie
}

TEST_CASE("P15: a stopped template process ends none of its processes and is"
          " replaced") {
  stopped_template x;
  auto second = x.parent.fork();
  REQUIRE(second);
  CHECK_FALSE(x.has_ended(0));
  CHECK(children_of(x.mother).contains(x.process.id));
  CHECK_FALSE(children_of(x.mother).contains(second->id));
  REQUIRE(::kill(x.mother, SIGCONT) == 0);
  CHECK_FALSE(x.has_ended(500));
  CHECK_FALSE(x.parent.end(x.process)); // exit status unknown
  CHECK(x.has_ended(0));
  CHECK(x.parent.end(*second));
}
