// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "runtime/log.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_directory.hpp"
#include "transport/messages/all.hpp"
#include "transport/zmq/socket.hpp"
#include "transport/zmq/zmq_bus.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A node with a bus and no other actors.
class bare_node {
public:
  bare_node(const temporary_directory& folder, const std::string& name,
            const std::string& seed) {
    zmq_bus_settings settings;
    settings.cluster = "test";
    settings.self = {name, 1, "", {}, ""};
    settings.peers = "ipc://" + (folder / name);
    settings.seeds = {{"ipc://" + (folder / seed), seed}};
    auto x = zmq_bus::open(system, std::move(settings), counts_);
    REQUIRE(x);
    net = std::move(*x);
    net->start();
  }
  ~bare_node() { net->stop(); }

  caf::actor_system_config config;
  caf::actor_system system{config};

private:
  metrics counts_{recording::off};

public:
  std::unique_ptr<zmq_bus> net;
};

} // namespace

TEST_CASE("bus: messages of one actor to another arrive in order from any"
          " thread") {
  temporary_directory folder;
  bare_node a{folder, "a", "b"}, b{folder, "b", "a"};
  std::mutex guard;
  std::vector<uint64_t> heard;
  auto listener = b.system.spawn([&](caf::event_based_actor*) {
    return caf::behavior{[&](const drop_batch& x) {
      std::lock_guard lock{guard};
      heard.push_back(x.id);
    }};
  });
  b.net->publish("listener", caf::actor_cast<caf::strong_actor_ptr>(listener));
  REQUIRE(eventually([&] { return a.net->members().peers.size() == 1; }, 5s));
  auto there = caf::actor_cast<caf::actor>(a.net->resolve("b/listener"));
  std::atomic<int> said{0};
  auto speaker = a.system.spawn([&](caf::event_based_actor* self) {
    return caf::behavior{[&, self](int n) {
      self->send(there, drop_batch{static_cast<uint64_t>(n)});
      said = n;
    }};
  });
  constexpr int rounds = 20;
  auto speak_on_bus_thread = [&](int n) {
    caf::actor_cast<caf::strong_actor_ptr>(speaker)->enqueue(
      nullptr, caf::message_id{}, caf::make_message(n), &a.net->host());
  };
  // While this actor holds the bus thread, the speaker sends from another
  // thread. Then it sends from the bus thread.
  auto holder = a.system.spawn([&](caf::event_based_actor*) {
    return caf::behavior{[&](int n) {
      caf::anon_send(speaker, n);
      while (said < n)
        std::this_thread::yield();
      std::this_thread::sleep_for(5ms); // until the speaker is idle again
      speak_on_bus_thread(n + 1);
    }};
  });
  for (int n = 1; n < 2 * rounds; n += 2) {
    caf::actor_cast<caf::strong_actor_ptr>(holder)->enqueue(
      nullptr, caf::message_id{}, caf::make_message(n), &a.net->host());
    REQUIRE(eventually([&] { return said == n + 1; }, 5s));
  }
  auto all_came = [&] {
    std::lock_guard lock{guard};
    return heard.size() == 2 * rounds;
  };
  CHECK(eventually(all_came, 5s));
  std::lock_guard lock{guard};
  CHECK(std::is_sorted(heard.begin(), heard.end()));
  for (auto& x : {speaker, holder})
    caf::anon_send_exit(x, caf::exit_reason::kill);
  caf::anon_send_exit(listener, caf::exit_reason::kill);
}

TEST_CASE("bus: a node with control characters in its name is not linked and"
          " the log shows them escaped") {
  std::mutex guard;
  std::string log;
  set_log_sink([&](log_level, std::string_view line) {
    std::lock_guard lock{guard};
    log += line;
    log += '\n';
  });
  auto logged = [&](std::string_view text) {
    std::lock_guard lock{guard};
    return log.find(text) != std::string::npos;
  };
  {
    temporary_directory folder;
    bare_node a{folder, "a", "b"};
    hello first;
    first.cluster = "test";
    first.self = {"b\x1b[2J", 1, "ipc://" + (folder / "b"), {}, ""};
    first.link = 1;
    first.start = 1;
    zmq::context_t context;
    auto b = zeromq::make_dealer(context, first.self.name + "@1@1@1", {});
    REQUIRE(zeromq::connect(b, "ipc://" + (folder / "a")));
    auto now = steady_now();
    auto message = make_wire_message(first, now, nullptr);
    REQUIRE(eventually([&] { return zeromq::send(b, {}, message, now); }, 5s));
    CHECK(eventually([&] { return logged("b\\\\x1b[2J"); }, 5s));
    CHECK(a.net->members().peers.empty());
  }
  set_log_sink({});
  CHECK(log.find('\x1b') == log.npos);
}
