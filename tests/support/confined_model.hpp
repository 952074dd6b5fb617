// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <future>

#include <doctest/doctest.h>

#include "models/bundle_store.hpp"
#include "models/confined/confined_stage.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/children.hpp"
#include "tests/support/why.hpp"

namespace millrace::test {

/// A test bundle, verified.
inline std::shared_ptr<const bundle> verified(const std::string& name) {
  ::unsetenv("MILLRACE_BACKEND"); // another test of this process may need it
  bundle_store store{TEST_BUNDLES};
  auto x = store.open(name, "", verify::hashes);
  REQUIRE(x);
  return std::make_shared<const bundle>(std::move(*x));
}

/// The source of processes for stages: one process per stage, or one for all
/// stages.
struct process_environment {
  explicit process_environment(bool shared, bool with_gpus = false)
    : parent(with_gpus),
      processes(parent, shared) {
    REQUIRE(parent.start());
  }

  confined::template_process parent;
  confined::process_source processes;
  byte_count memory{uint64_t{2} << 30}; ///< memory limit of each new stage
};

/// A stage in a process, with the results that the process reports.
class confined_model {
public:
  explicit confined_model(std::shared_ptr<const bundle> content,
                          uint32_t lanes = 1, nanoseconds load_limit = 20s,
                          bool in_background = false,
                          const std::optional<gpu_place>& gpu = {})
    : confined_model(
      std::make_shared<process_environment>(false, gpu.has_value()),
      std::move(content), lanes, load_limit, in_background, gpu) {}

  /// Uses a process of this environment.
  confined_model(std::shared_ptr<process_environment> environment,
                 std::shared_ptr<const bundle> content, uint32_t lanes = 1,
                 nanoseconds load_limit = 20s, bool in_background = false,
                 const std::optional<gpu_place>& gpu = {})
    : environment_(std::move(environment)) {
    confined::stage_settings settings;
    settings.content = std::move(content);
    settings.last_layer = 1;
    settings.max_batch = 4;
    settings.lanes = lanes;
    settings.memory = environment_->memory;
    settings.load_limit = load_limit;
    settings.in_background = in_background;
    settings.gpu = gpu;
    stage_ = confined::make_confined_stage(
      environment_->processes, std::move(settings),
      {[this](auto x) { loaded_.set_value(std::move(x)); },
       [this](error x) { lost_.set_value(std::move(x)); }});
  }

  /// Loads a test bundle.
  explicit confined_model(const std::string& name, uint32_t lanes = 1,
                          bool in_background = false)
    : confined_model(verified(name), lanes, 20s, in_background) {}

  /// Loads a test bundle on a GPU.
  confined_model(const std::string& name, const gpu_place& gpu)
    : confined_model(verified(name), 2, 60s, false, gpu) {}

  result<confined::load_times> loaded() { return loaded_.get_future().get(); }

  confined_model& ready() {
    auto x = loaded();
    INFO(why(x));
    REQUIRE(x);
    return *this;
  }

  result<tensor_list> run(const tensor& x, const run_limits& limits = {}) {
    return stage_->run({x}, limits);
  }

  uint64_t peak_of(const tensor& x) {
    uint64_t peak = 0;
    REQUIRE(stage_->run({x}, {}, &peak));
    return peak;
  }

  /// Waits at most 10 s for the loss of the stage and returns the reason.
  std::string lost() { return loss().text; }
  error loss() {
    auto x = lost_.get_future();
    REQUIRE(x.wait_for(10s) == std::future_status::ready);
    return x.get();
  }

  pid_t process() const {
    auto all = grandchildren_of(::getpid());
    return all.empty() ? 0 : *all.begin();
  }

  /// Ends the process of the stage; its runs fail.
  void give_up() { stage_->give_up(); }

private:
  std::shared_ptr<process_environment> environment_;
  std::promise<result<confined::load_times>> loaded_;
  std::promise<error> lost_;
  std::unique_ptr<confined::confined_stage> stage_;
};

/// A model with inputs that select a hostile action; see hostile_backend.cpp.
inline std::shared_ptr<const bundle> hostile() {
  ::setenv("MILLRACE_BACKEND", HOSTILE_BACKEND, 1);
  bundle out{*make_bundle("hostile")};
  out.info.signature = {
    {{"deeds", dtype::i64, {-1}}}, {{"outcomes", dtype::i64, {-1}}}, -1};
  return std::make_shared<const bundle>(std::move(out));
}

inline tensor deeds(const std::vector<int64_t>& xs) {
  return *tensor::make(dtype::i64, {static_cast<int64_t>(xs.size())},
                       bytes_of(xs));
}

} // namespace millrace::test
