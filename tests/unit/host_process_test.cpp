// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>

#include "models/device/emulated_device.hpp"
#include "simulator/contents.hpp"
#include "tests/support/builders.hpp"
#include "transport/simulated/network.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Two emulated devices of one host on a clock that the test moves. A model of
/// 4 layers takes 4 s to attach and 1 s to send.
class devices_of_a_host : private device_listener {
public:
  explicit devices_of_a_host(attach_mode attach, microseconds fork = 0us) {
    what_.chunk = {1u << 20};
    what_.bundles["m"].bytes = {8u << 20};
    what_.bundles["m"].layers = 4;
    emulation how;
    how.attach = attach;
    how.fork = fork;
    emulated_environment environment;
    environment.process = std::make_shared<host_process>();
    profile known{"m", {}};
    known.points.push_back({"d", 1, {}, {{"execute_seconds", 0.4}}});
    for (double i = 0; i < 4; ++i)
      known.points.push_back({"d",
                              1,
                              {{"layer", i}},
                              {{"execute_seconds", 0.1},
                               {"attach_seconds", 1},
                               {"send_seconds", 0.25}}});
    environment.profiles =
      std::make_shared<profile_book>(std::vector{std::move(known)});
    for (auto& device : devices_)
      device =
        make_emulated_device({"emu0", "d", 1, {}}, how, *this, environment);
    content_ = all_.whole("m", 1);
  }

  void load(size_t device, instance_id id, size_t first = 0, size_t last = 4) {
    load_request x;
    x.instance = id;
    x.content = content_;
    x.first_layer = first;
    x.last_layer = last;
    devices_[device]->load(std::move(x), now_);
  }

  void unload(size_t device, instance_id id) { devices_[device]->unload(id); }

  void run_until(double seconds) {
    auto end = timestamp{} + microseconds{static_cast<int64_t>(seconds * 1e6)};
    for (;;) {
      auto due = std::min(devices_[0]->next_due(), devices_[1]->next_due());
      if (due > end)
        break;
      now_ = due;
      for (auto& device : devices_)
        device->advance(now_);
    }
    now_ = end;
  }

  /// When an instance was loaded, in seconds; -1 if it was not.
  double loaded(instance_id x) const {
    auto i = loaded_.find(x);
    return i == loaded_.end() ? -1 : i->second;
  }

private:
  void on_loaded(instance_id id, result<load_report> x) override {
    if (x)
      loaded_[id] = to_seconds(now_.time_since_epoch());
  }
  void on_lost(instance_id, error) override {}
  void on_executed(execution_report) override {}

  scenario what_;
  simulator::contents all_{what_};
  std::shared_ptr<const bundle> content_;
  timestamp now_{};
  std::unique_ptr<device> devices_[2];
  std::map<instance_id, double> loaded_;
};

auto about(double x) {
  return doctest::Approx(x).epsilon(1e-4);
}

} // namespace

TEST_CASE(
  "host process: with attach per replica each load takes its whole time") {
  devices_of_a_host on{attach_mode::replica, 1s};
  on.load(0, 1);
  on.load(1, 2);
  on.run_until(20);
  CHECK(on.loaded(1) == about(5));
  CHECK(on.loaded(2) == about(5));
}

TEST_CASE("host process: without attachment a load only sends") {
  devices_of_a_host on{attach_mode::never, 1s};
  on.load(0, 1);
  on.run_until(20);
  CHECK(on.loaded(1) == about(1));
}

TEST_CASE("host process: a second replica waits for the first attachment and "
          "is forked and later ones do not wait") {
  devices_of_a_host on{attach_mode::host, 200ms};
  on.load(0, 1);
  on.run_until(3);
  on.load(1, 2);
  on.run_until(10);
  CHECK(on.loaded(1) == about(5));
  CHECK(on.loaded(2) == about(5.2));
  on.unload(0, 1);
  on.load(0, 3);
  on.run_until(20);
  CHECK(on.loaded(3) == about(11.2));
}

TEST_CASE("host process: a replica attaches only the missing layers") {
  devices_of_a_host on{attach_mode::host};
  on.load(0, 1, 0, 1);
  on.run_until(10);
  CHECK(on.loaded(1) == about(1.25));
  on.load(1, 2);
  on.run_until(20);
  CHECK(on.loaded(2) == about(14)); // attaches 3 of 4 layers, then sends all
}

TEST_CASE(
  "host process: a load that ends early leaves its layers to the next load") {
  devices_of_a_host on{attach_mode::host};
  on.load(0, 1);
  on.load(1, 2);
  on.run_until(2);
  on.unload(0, 1);
  on.run_until(20);
  CHECK(on.loaded(1) == -1);
  CHECK(on.loaded(2) == about(9)); // the load of 1 was due at 4 s
}

TEST_CASE("network: a flow gets at most per_flow and flows between two hosts "
          "at most per_host") {
  virtual_world world;
  network_settings settings;
  settings.host = {{100e6}, 0us, {10e6}};
  settings.rack = settings.clients = {{0}, 0us};
  settings.store = {{100e6}, 0us, {}, {30e6}};
  simulated_network net{world, settings, random_stream{1}};
  auto a = net.add_host("a", ""), b = net.add_host("b", "");
  std::map<std::string, double> ended;
  std::vector<std::unique_ptr<simulated_network::stream>> open;
  auto send = [&](const std::string& name, host_number from, host_number to) {
    open.push_back(net.open(from, to));
    open.back()->send(10'000'000, nullptr,
                      [&, name] { ended[name] = to_seconds(world.elapsed()); });
  };
  send("one", a, b);
  send("two", a, b);
  world.run_for(10s);
  CHECK(ended["one"] == about(1)); // each flow at 10 MB/s, the link at 100
  CHECK(ended["two"] == about(1));
  open.clear();
  // Each host gets 30 MB/s of the store, and each flow of a host 10 MB/s.
  for (auto* name : {"1", "2", "3", "4"})
    send(name, net.store(), a);
  send("b", net.store(), b);
  world.run_for(10s);
  for (auto* name : {"1", "2", "3", "4"})
    CHECK(ended[name] == about(10 + 4 * 10 / 30.0));
  CHECK(ended["b"] == about(11));
}

TEST_CASE("IF-37: independent transfers take a * bytes^b + c each by piecewise "
          "laws and share no link") {
  network_settings settings;
  settings.host = {{1e6}, 10us}; // the link is far slower than the law
  auto& law = settings.transfer;
  CHECK(law.seconds(9'633'792) == doctest::Approx(0.0087).epsilon(0.05));
  law.independent = true;
  law.medium = {1e-6, 0.5, 0.25};
  law.large = {0, 1, 7};
  virtual_world world;
  simulated_network net{world, settings, random_stream{1}};
  auto a = net.add_host("a", ""), b = net.add_host("b", "");
  std::vector<double> ended;
  std::vector<std::unique_ptr<simulated_network::stream>> open;
  for (size_t bytes : {4'000'000, 4'000'000, 1000, 200'000'000}) {
    open.push_back(net.open(a, b));
    open.back()->send(bytes, nullptr,
                      [&] { ended.push_back(to_seconds(world.elapsed())); });
  }
  world.run_for(10s);
  REQUIRE(ended.size() == 4);
  CHECK(ended[0] == about(3.22e-4 + 8.7e-7)); // the transfer of 1000 bytes
  CHECK(ended[1] == about(0.25 + 2e-3));
  CHECK(ended[2] == about(0.25 + 2e-3));
  CHECK(ended[3] == about(7));
}

TEST_CASE(
  "network: transfers from one disk share its speed and do not use a link") {
  virtual_world world;
  network_settings settings;
  settings.host = {{1e6}, 0us};
  simulated_network net{world, settings, random_stream{1}};
  auto a = net.add_host("a", "");
  auto disk = net.add_disk(a, {100e6});
  std::vector<double> ended;
  auto one = net.open_disk(a, disk), two = net.open_disk(a, disk);
  for (auto* x : {one.get(), two.get()})
    x->send(50'000'000, nullptr,
            [&] { ended.push_back(to_seconds(world.elapsed())); });
  world.run_for(10s);
  REQUIRE(ended.size() == 2);
  CHECK(ended[0] == about(1));
  CHECK(ended[1] == about(1));
}
