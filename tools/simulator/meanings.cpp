// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "simulator/invariants.hpp"

namespace millrace::simulator {

namespace {

struct meaning {
  std::string_view invariant;
  std::string_view sentence;
};

constexpr std::array meanings{
  meaning{"I1", "An accepted request gets exactly one final answer."},
  meaning{"I2", "An answer goes to the client that sent the request, and is"
                " computed from the request's inputs."},
  meaning{"I3", "A gateway answers only requests that it accepted and has not"
                " answered yet."},
  meaning{"I4", "A request is answered by its deadline, plus a grace, whatever"
                " fails."},
  meaning{"I5", "A request runs at most twice, at most once if it must not be"
                " retried, and never again where it just failed."},
  meaning{"I6", "A request that its client cancelled starts no new stage."},
  meaning{"I8", "A refused request never runs, and an accepted one stands in a"
                " bounded queue."},
  meaning{"I9", "Messages from an earlier start of a node have no effect."},
  meaning{"I10", "A node obeys one controller epoch at a time and never returns"
                 " to an older one."},
  meaning{"I11", "A replica that was given up has no more effect."},
  meaning{"I12", "Reserved memory and lanes of a device or host stay within its"
                 " capacity and equal the sum of their owners' claims."},
  meaning{"I13", "Every queue, buffer and table stays within its configured"
                 " bound."},
  meaning{"I14", "No actor, timer or reservation outlives its owner."},
  meaning{"I15", "A replica serves the model version that it was assigned."},
  meaning{"I20", "The directory of models lists a host only with content that"
                 " the host has."},
  meaning{"I21", "After the faults each model gets its wanted number of"
                 " replicas, and the number does not flap."},
  meaning{"I22", "State that was acknowledged is there after a crash, and"
                 " nothing that was never requested."},
  meaning{"I25", "After the faults requests are answered again while replicas"
                 " are ready."},
  meaning{"I26", "After the faults every live node sees every other live"
                 " node."},
  meaning{"I28", "The number of messages per answered request is bounded: no"
                 " livelock."},
  meaning{"I29", "A message changes state only if the role of its sender may"
                 " send it."},
  meaning{"I30", "Two runs of one seed are the same, event by event."},
  meaning{"I31", "No more batches of a replica run at once than its limit, nor"
                 " more on a device than its sharing admits."},
  meaning{"I32",
          "Machines are billed from request to release, boot and failures"
          " included, and none is leaked or requested twice."},
  meaning{"I33", "No link carries more bytes than its capacity allows, and no"
                 " replica is ready before its bytes can have come from their"
                 " source."},
  meaning{"P20", "A seed runs to its end and can be replayed."},
  meaning{"P21", "Every event that the scenario names as a probe happens in"
                 " some seed."},
  meaning{"P22", "A run has enough requests, and enough faults while requests"
                 " are open, to show anything."}};

} // namespace

std::string_view meaning_of(std::string_view invariant) {
  auto i = std::find_if(meanings.begin(), meanings.end(),
                        [&](auto& x) { return x.invariant == invariant; });
  return i == meanings.end() ? std::string_view{} : i->sentence;
}

} // namespace millrace::simulator
