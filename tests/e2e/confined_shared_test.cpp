// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "models/confined/process_state.hpp"
#include "tests/support/confined_model.hpp"

/// \file
/// Stages that share one confined process.

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<process_environment> one_process() {
  return std::make_shared<process_environment>(true);
}

confined_model make(const std::shared_ptr<process_environment>& in,
                    const std::string& name, uint32_t lanes = 1) {
  return confined_model{in, verified(name), lanes};
}

std::shared_ptr<process_environment> with_fake_gpus(bool shared) {
  ::setenv("MILLRACE_BACKEND", FAKE_GPU_BACKEND, 1);
  auto out = std::make_shared<process_environment>(shared, true);
  ::unsetenv("MILLRACE_BACKEND");
  return out;
}

gpu_place on_stream(bool pipelined) {
  return {.sharing = gpu_sharing::streams, .pipelined = pipelined};
}

/// A model with this layer of the fake backend.
std::shared_ptr<const bundle> model_of_layer(const std::string& name) {
  auto out = std::make_shared<bundle>(*verified("identity"));
  out->info.layers[0].name = name;
  out->directory = name; // identifies stages
  return out;
}

/// A ready model on a GPU.
std::unique_ptr<confined_model>
on_stream_of(const std::shared_ptr<process_environment>& environment,
             const std::shared_ptr<const bundle>& content) {
  auto out = std::make_unique<confined_model>(environment, content, 1, 20s,
                                              false, on_stream(true));
  out->ready();
  return out;
}

/// Number of threads of a process with this name.
size_t threads_of(pid_t process, const std::string& name) {
  size_t out = 0;
  std::error_code gone;
  std::filesystem::directory_iterator all{
    "/proc/" + std::to_string(process) + "/task", gone};
  for (auto i = begin(all); !gone && i != end(all); i.increment(gone)) {
    std::string found;
    std::getline(std::ifstream{i->path() / "comm"} >> std::ws, found);
    out += found == name;
  }
  return out;
}

/// A model on a GPU with parameters that have not arrived yet.
class arriving_model {
public:
  arriving_model(process_environment& environment,
                 std::shared_ptr<const bundle> content) {
    confined::stage_settings settings;
    settings.content = std::move(content);
    settings.last_layer = 1;
    settings.max_batch = 1;
    settings.memory = environment.memory;
    settings.load_limit = 20s;
    settings.gpu = on_stream(true);
    settings.arriving = true;
    stage_ = confined::make_confined_stage(
      environment.processes, settings,
      {[this](auto x) { loaded_.set_value(std::move(x)); }, [](error) {}});
  }

  /// Ends the transfer of the parameters with an error. Returns the error of
  /// the load.
  std::string fail(const std::string& reason) {
    stage_->on_arrival(error{ec::unavailable, reason});
    return outcome();
  }

  std::string outcome() {
    auto x = loaded_.get_future();
    REQUIRE(x.wait_for(10s) == std::future_status::ready);
    return why(x.get());
  }

private:
  std::promise<result<confined::load_times>> loaded_;
  std::unique_ptr<confined::confined_stage> stage_;
};

bool within(nanoseconds most, const std::function<bool()>& done) {
  for (auto until = steady_now() + most; steady_now() < until;
       std::this_thread::yield())
    if (done())
      return true;
  return done();
}

} // namespace

TEST_CASE("P24, shared process: several stages compute their own outputs in one"
          " process") {
  auto environment = one_process();
  auto affine = make(environment, "affine", 2);
  auto identity = make(environment, "identity");
  affine.ready();
  identity.ready();
  CHECK(grandchildren_of(::getpid()).size() == 1);
  auto x = floats({3, 4});
  for (int i = 0; i < 3; ++i) {
    auto same = identity.run(x);
    REQUIRE(same);
    CHECK(values_of((*same)[0]) == values_of(x));
    auto y = affine.run(x);
    REQUIRE(y);
    CHECK((*y)[0].extents == shape{3, 2});
  }
}

TEST_CASE("P24, shared process: the memory of a stage that left is no longer"
          " registered with the GPU") {
  auto content = verified("identity");
  auto environment = with_fake_gpus(true);
  auto make = [&] {
    return std::make_unique<confined_model>(environment, content, 1, 20s, false,
                                            gpu_place{});
  };
  auto stays = make();
  stays->ready();
  for (int i = 0; i < 5; ++i) { // probably at the address of the last one
    auto goes = make();
    goes->ready();
    auto y = goes->run(floats({1, 4}));
    INFO(why(y));
    CHECK(y);
  }
}

TEST_CASE("confined: the first pass on a GPU begins before all parameters"
          " arrive only if pipelined") {
  for (auto pipelined : {true, false})
    for (auto shared : {false, true}) {
      auto content =
        model_of_layer(pipelined ? "awaits_a_pass" : "comes_first");
      confined_model model{with_fake_gpus(shared), content, 2, 20s, false,
                           on_stream(pipelined)};
      model.ready();
      CHECK(model.run(floats({1, 4})));
    }
}

TEST_CASE("P24, shared process: a pass without its parameters does not block"
          " other stages") {
  auto environment = with_fake_gpus(true);
  auto stays = on_stream_of(environment, verified("identity"));
  auto process = stays->process();
  arriving_model never{*environment, verified("identity")};
  REQUIRE(within(5s, [&] { return threads_of(process, "in a pass") == 1; }));
  CHECK(never.fail("the sender is gone").find("the sender is gone")
        != std::string::npos);
  CHECK(within(5s, [&] { return threads_of(process, "in a pass") == 0; }));
  CHECK(stays->run(floats({1, 4})));
}

TEST_CASE("P14, shared process: a process with an endless first pass gets no"
          " other stages and the model gets its own process next time") {
  auto environment = with_fake_gpus(true);
  auto stays = on_stream_of(environment, verified("identity"));
  auto first = stays->process();
  auto processes = [] { return grandchildren_of(::getpid()); };
  auto looping = model_of_layer("begins_and_loops");
  {
    arriving_model loops{*environment, looping};
    REQUIRE(within(5s, [&] { return threads_of(first, "in a pass") == 1; }));
    loops.fail("the sender is gone");
  }
  CHECK(within(20s, [&] {
    auto next = on_stream_of(environment, verified("identity"));
    return processes().size() == 2;
  }));
  CHECK(within(5s, [&] { return processes().size() == 1; }));
  arriving_model again{*environment, looping};
  CHECK(within(5s, [&] { return processes().size() == 2; }));
  auto next = on_stream_of(environment, verified("identity"));
  CHECK(processes().size() == 3);
  again.fail("the sender is gone");
  // The process of the looping model has ended.
  CHECK(within(5s, [&] { return processes().size() == 2; }));
  CHECK(stays->run(floats({1, 4})));
}

TEST_CASE("P14: a first pass that exceeds the memory limit is ended before its"
          " parameters arrive") {
  auto environment = with_fake_gpus(false);
  environment->memory = {400 << 20};
  arriving_model greedy{*environment, model_of_layer("begins_and_eats")};
  CHECK(greedy.outcome().find("more memory than process_memory")
        != std::string::npos);
}

TEST_CASE("IF-33: a process without MPS fails with that reason") {
  confined_model model{with_fake_gpus(false),
                       verified("identity"),
                       1,
                       20s,
                       false,
                       gpu_place{.sharing = gpu_sharing::mps}};
  auto outcome = model.loaded();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.failure().text.find("MPS is none here") != std::string::npos);
}

TEST_CASE("P14: a process with a GPU that exceeds its memory limit is ended and"
          " reports the reason") {
  constexpr float keeps_64_mib = 1004, takes_a_second = 1003;
  for (auto shared : {false, true}) {
    auto content = verified("identity");
    auto environment = with_fake_gpus(shared);
    environment->memory = {400 << 20};
    confined_model model{environment, content, 1, 20s, false, gpu_place{}};
    model.ready();
    for (int i = 0; i < 3; ++i)
      CHECK(model.run(floats({1, 4}, keeps_64_mib)));
    CHECK(model.run(floats({1, 4}, takes_a_second))); // below the limit
    for (int i = 0; i < 6; ++i)
      static_cast<void>(model.run(floats({1, 4}, keeps_64_mib)));
    CHECK(model.loss().text.find("more memory than process_memory")
          != std::string::npos);
  }
}

TEST_CASE("P24, shared process: a stopped process does not delay later loads") {
  auto environment = one_process();
  auto content = verified("identity");
  auto idle = make(environment, "affine");
  idle.ready();
  auto process = idle.process();
  REQUIRE(::kill(process, SIGSTOP) == 0);
  auto begin = steady_now();
  // More loads than the socket buffer holds.
  std::vector<std::unique_ptr<confined_model>> all;
  for (int i = 0; i < 60; ++i)
    all.push_back(std::make_unique<confined_model>(environment, content));
  size_t failed = 0;
  for (auto& x : all)
    failed += !x->loaded();
  CHECK(failed > 0);
  CHECK(idle.loss().text.find("was stopped by a signal") != std::string::npos);
  auto next = make(environment, "affine");
  next.ready();
  CHECK(next.run(floats({1, 4})));
  CHECK(steady_now() - begin < 10s); // a load may take 20 s
}

TEST_CASE("P24, shared process: a stage that leaves frees only its own"
          " resources and the last stage ends the process") {
  auto environment = one_process();
  auto stays = make(environment, "affine");
  stays.ready();
  auto process = stays.process();
  for (int i = 0; i < 3; ++i) {
    auto goes = make(environment, "ballast", 3);
    goes.ready();
    REQUIRE(goes.run(floats({1, 4})));
    CHECK(goes.process() == process);
    CHECK(confined::look_at(process).threads >= 5);
    goes.give_up();
  }
  CHECK(within(5s, [&] { return confined::look_at(process).threads <= 4; }));
  CHECK(stays.run(floats({1, 4})));
  stays.give_up();
  CHECK(within(5s, [&] { return stays.process() == 0; }));
  auto next = make(environment, "affine");
  next.ready();
  CHECK(next.process() != process);
  CHECK(next.run(floats({1, 4})));
}

TEST_CASE("P24, shared process: a crash ends all stages and only stages that"
          " were running restart in their own process") {
  auto environment = one_process();
  auto idle = make(environment, "affine");
  auto busy = make(environment, "lasting");
  idle.ready();
  busy.ready();
  std::jthread killer{[&] {
    auto process = idle.process();
    auto before = processor_seconds_of(process);
    CHECK(
      within(5s, [&] { return processor_seconds_of(process) > before + 0.1; }));
    ::kill(process, SIGKILL);
  }};
  auto y = busy.run(floats({1, 4}, 2e9f));
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::poison);
  CHECK(busy.loss().code == ec::cancelled);
  auto why = idle.loss();
  CHECK(why.code == ec::cancelled);
  CHECK(why.text.find("shared ended with SIGKILL") != std::string::npos);
  auto again = make(environment, "lasting");
  again.ready();
  auto alone = again.process();
  auto next = make(environment, "affine");
  next.ready();
  CHECK(grandchildren_of(::getpid()).size() == 2);
  ::kill(alone, SIGKILL);
  CHECK(again.loss().code == ec::unavailable); // it had only this stage
  CHECK(next.run(floats({1, 4})));
}

TEST_CASE("P24, shared process: a model that ends the process during its load"
          " is loaded in its own process next time") {
  auto crashing = std::make_shared<bundle>(*hostile());
  crashing->info.layers[0].name = "crash";
  auto environment = one_process();
  confined_model stays{environment, hostile()};
  stays.ready();
  confined_model culprit{environment, crashing};
  auto first = culprit.loaded();
  REQUIRE_FALSE(first);
  CHECK(first.failure().code == ec::cancelled);
  CHECK(stays.loss().code == ec::cancelled);
  confined_model back{environment, hostile()};
  back.ready();
  confined_model again{environment, crashing};
  auto second = again.loaded();
  REQUIRE_FALSE(second);
  CHECK(second.failure().code == ec::unavailable);
  CHECK(back.run(deeds({0})));
}

TEST_CASE("P24, shared process: a load that exceeds its time limit is abandoned"
          " and the next load uses another process") {
  auto looping = std::make_shared<bundle>(*hostile());
  looping->info.layers[0].name = "loop";
  auto environment = one_process();
  confined_model stays{environment, hostile()};
  stays.ready();
  auto process = stays.process();
  confined_model slow{environment, looping, 1, 300ms};
  auto x = slow.loaded();
  REQUIRE_FALSE(x);
  CHECK(x.failure().text.find("did not load it within 300 ms")
        != std::string::npos);
  confined_model again{environment, looping, 1, 300ms};
  CHECK_FALSE(again.loaded());
  CHECK(stays.process() == process);
  CHECK(stays.run(deeds({0})));
}

TEST_CASE("P24, shared process: stages beyond the capacity are refused and many"
          " stages may leave at once") {
  auto environment = one_process();
  auto stays = make(environment, "affine");
  stays.ready();
  auto process = stays.process();
  {
    std::vector<std::unique_ptr<confined_model>> many;
    for (int i = 0; i < 40; ++i)
      many.push_back(
        std::make_unique<confined_model>(environment, verified("identity"), 3));
    size_t refused = 0;
    for (auto& x : many)
      if (auto y = x->loaded(); !y) {
        ++refused;
        CHECK(y.failure().text.find("no room for another")
              != std::string::npos);
      }
    CHECK(refused > 10);
    CHECK(refused < 30);
    CHECK(stays.process() == process);
  }
  CHECK(within(5s, [&] { return confined::look_at(process).threads <= 4; }));
  CHECK(stays.run(floats({1, 4})));
}

TEST_CASE("P24, shared process: a run beside a batch that is ended is cancelled"
          " with the reason and not poison") {
  auto environment = one_process();
  auto loops = make(environment, "lasting");
  auto beside = make(environment, "lasting");
  loops.ready();
  beside.ready();
  result<tensor_list> other = tensor_list{};
  std::jthread thread{[&] { other = beside.run(floats({1, 4}, 2e9f)); }};
  auto y = loops.run(floats({1, 4}, 2e9f), {steady_now() + 300ms});
  thread.join();
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::poison);
  REQUIRE_FALSE(other);
  CHECK(other.failure().code == ec::cancelled);
  auto why = beside.loss();
  CHECK(why.code == ec::cancelled);
  CHECK(why.text.find("the process that the model shared took too long")
        != std::string::npos);
}
