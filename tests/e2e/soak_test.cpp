// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "tests/support/canary_load.hpp"
#include "tests/support/children.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Number of open descriptors by kind: "socket", "anon_inode:[eventfd]".
using open_files = std::map<std::string, size_t>;

open_files open_of(pid_t pid) {
  open_files out;
  std::filesystem::directory_iterator all{"/proc/" + std::to_string(pid)
                                          + "/fd"};
  for (auto& x : all) {
    std::error_code gone;
    auto what = std::filesystem::read_symlink(x.path(), gone).string();
    // Journals start new parts and keep a few old parts.
    if (what.find("/audit.journal.") != std::string::npos)
      continue;
    // "socket:[4711]", but not "anon_inode:[eventfd]"
    ++out[what.starts_with("socket:") ? "socket" : what];
  }
  return out;
}

/// "2 more of socket; "
std::string difference(const open_files& before, const open_files& after) {
  std::string out;
  for (auto& [what, n] : after) {
    auto i = before.find(what);
    auto had = i == before.end() ? 0 : i->second;
    if (n > had)
      out += std::to_string(n - had) + " more of " + what + "; ";
  }
  return out;
}

/// Resources of a node that must not grow.
struct holdings {
  open_files open;
  size_t threads = 0;
  size_t actors = 0;
  size_t processes = 0;  ///< model processes
  uint64_t reserved = 0; ///< reserved bytes of its devices
  uint64_t resident = 0;

  bool same_but_memory(const holdings& x) const {
    return open == x.open && threads == x.threads && actors == x.actors
           && processes == x.processes && reserved == x.reserved;
  }
};

std::ostream& operator<<(std::ostream& out, const holdings& x) {
  size_t descriptors = 0;
  for (auto& [what, n] : x.open)
    descriptors += n;
  return out << descriptors << " descriptors, " << x.threads << " threads, "
             << x.actors << " actors, " << x.processes << " processes, "
             << format_bytes(x.reserved) << " reserved, "
             << format_bytes(x.resident) << " resident";
}

size_t entries_of(const std::string& folder) {
  std::filesystem::directory_iterator all{folder};
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// A node with all roles that loads and unloads models.
class soaked {
public:
  soaked() {
    cluster_.start_all();
    REQUIRE(cluster_.wait_ready());
    operators_.emplace(cluster_.connect_operator("all"));
  }

  client connect() { return cluster_.connect_client(); }

  /// Loads a model, sends one request, and unloads the model.
  void come_and_go(client& gateway) {
    want(1);
    CHECK(gateway.infer_one(ask("affine", floats({1, 4})), 10s).status
          == ec::ok);
    want(0);
  }

  /// The current resources of the node.
  holdings look() {
    auto pid = cluster_["all"].pid();
    auto proc = "/proc/" + std::to_string(pid);
    auto status = operators_->ask<node_status>("./supervisor", get_status{});
    REQUIRE(status);
    holdings out;
    out.open = open_of(pid);
    out.threads = entries_of(proc + "/task");
    out.actors = status->actors.size();
    out.processes = grandchildren_of(pid).size();
    for (auto& x : status->replicas)
      out.reserved += x.memory;
    std::ifstream in{proc + "/statm"};
    uint64_t size = 0, pages = 0;
    in >> size >> pages;
    out.resident = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    return out;
  }

  /// Waits until the resources are stable. The process of an unloaded model
  /// ends after the replica leaves the status.
  holdings settled() {
    auto out = look();
    auto since = steady_now();
    REQUIRE(eventually(
      [&] {
        auto before = std::exchange(out, look());
        if (out.processes != 1 || !out.same_but_memory(before))
          since = steady_now();
        return steady_now() - since > 500ms;
      },
      10s));
    return out;
  }

private:
  void want(uint64_t replicas) {
    set_model x;
    x.settings.model = "affine";
    x.settings.replicas = replicas;
    REQUIRE(operators_->ask<ack>("./registry", x));
    REQUIRE(eventually(
      [&] {
        auto status =
          operators_->ask<node_status>("./supervisor", get_status{});
        return status && ready(*status) == replicas + 1;
      },
      20s));
  }

  static size_t ready(const node_status& x) {
    size_t out = 0;
    for (auto& r : x.replicas)
      // A draining replica counts as 100, so that ready() waits for its end.
      out += r.state == replica_condition::ready ? 1 : 100;
    return out;
  }

  live_cluster cluster_{
    {{"all", "    roles: [gateway, controller, worker]\n"}},
    "  - {model: identity}\n  - {model: affine, replicas: 0}\n",
    TEST_BUNDLES};
  std::optional<operator_client> operators_;
};

} // namespace

TEST_CASE("P10: a node uses no more memory or files after many requests and"
          " loads and unloads") {
  const size_t cycles = 20 * static_cast<size_t>(times());
  const size_t requests = 20'000 * static_cast<size_t>(times());
  soaked node;
  auto other = node.connect();
  canary_load load{node.connect(), "identity", 64};
  auto soak = [&](size_t n, size_t until) {
    load.start();
    for (size_t i = 0; i < n; ++i)
      node.come_and_go(other);
    load.stop();
    while (load.submitted < until)
      load.run(100ms);
    load.finish();
  };
  // Warm-up: allocators and threads that start once.
  soak(10, 20'000);
  auto before = node.settled();
  MESSAGE("before: " << before);
  soak(cycles, load.submitted + requests);
  auto after = node.look();
  CHECK(eventually(
    [&] {
      after = node.look();
      return after.same_but_memory(before);
    },
    5s));
  CHECK(difference(before.open, after.open) == "");
  report(load);
  MESSAGE("after " << cycles << " loads and unloads and " << load.submitted
                   << " requests: " << after);
  CHECK(after.resident < before.resident + (10 << 20));
  CHECK(load.statuses[ec::ok] == load.submitted);
  CHECK(load.foreign == 0);
}
