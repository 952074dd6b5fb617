// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>

#include "runtime/reactor.hpp"
#include "runtime/worker_thread.hpp"
#include "tests/support/eventually.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A job that records the execution unit it ran on.
class job : public caf::resumable {
public:
  resume_result resume(caf::execution_unit* on, size_t) override {
    ran_on = on;
    return done;
  }
  void intrusive_ptr_add_ref_impl() override {}
  void intrusive_ptr_release_impl() override { released = true; }

  std::atomic<caf::execution_unit*> ran_on{nullptr};
  std::atomic<bool> released{false};
};

} // namespace

TEST_CASE("reactor: jobs left at its end and later jobs run on CAF's workers") {
  caf::actor_system_config config;
  caf::actor_system system{config};
  std::atomic<size_t> woken = 0;
  job mine, posted, late;
  reactor x{system, [&] { ++woken; }};
  x.exec_later(&mine);
  worker_thread other{"other"};
  other.post([&] { x.exec_later(&posted); });
  CHECK(eventually([&] { return woken == 1; }, 5s));
  x.close();
  x.exec_later(&late);
  CHECK(woken == 1);
  for (auto* j : {&mine, &posted, &late}) {
    CHECK(eventually([&] { return j->released.load(); }, 5s));
    CHECK(j->ran_on != nullptr);
    CHECK(j->ran_on != &x);
  }
}
