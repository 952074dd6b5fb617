// SPDX-License-Identifier: Apache-2.0
#include "models/confined/lane.hpp"

#include <malloc.h>
#include <unistd.h>
#include <utility>

namespace millrace::confined {

namespace {

/// A lane that is idle for this time trims the allocator: a first pass alone,
/// which is compiled, leaves 60 MB in a process that runs BERT-base.
constexpr auto idle_after = 1s;

/// Wait for the node's close before a process with a lost GPU exits.
constexpr auto end_after = 100ms;

} // namespace

lane::~lane() {
  for (auto& x : arenas_)
    let_go(x);
}

/// Unpins an arena before it is unmapped: otherwise a GPU might take a later
/// mapping at the same address for pinned memory.
void lane::let_go(arena& unused) {
  if (gpus_ != nullptr && unused.size() > 0)
    gpus_->unpin(unused.behind(0).data());
  unused = arena{};
}

void lane::use_threads(uint32_t wanted) {
  if (wanted != threads_)
    enter_(wanted);
  threads_ = wanted;
}

void lane::serve(const run_function& run) {
  lane_order order;
  for (auto idle = false;;) {
    std::vector<file_descriptor> files;
    auto until = idle ? far_future : steady_now() + idle_after;
    auto came = receive_record(node_, order, until, &files);
    if (came == received::ended)
      return;
    idle = came == received::nothing;
    if (idle) {
      ::malloc_trim(0); // costs some page faults in the next run
      continue;
    }
    lane_answer answer;
    if (auto able = take_memory(order, files); !able)
      answer = failure_of(able.failure());
    else
      answer =
        order.what == lane_order::run ? answer_to(order, run) : hand(order);
    if (!send_record(node_, answer))
      return;
    if (answer.what == lane_answer::gpu_is_lost) {
      static_cast<void>( // the node ends this process when it has the answer
        receive_record(node_, order, steady_now() + end_after));
      ::_exit(1);
    }
  }
}

result<void> lane::take_memory(const lane_order& order,
                               std::vector<file_descriptor>& files) {
  if (order.room == 0 || files.size() != 1)
    return {};
  auto& mine = arenas_.at(order.arena);
  let_go(mine);
  auto fresh = arena::adopt(std::move(files.front()), order.room);
  if (!fresh) // no memory to map it
    return error{ec::overloaded, fresh.failure().text};
  mine = std::move(*fresh);
  if (gpus_ != nullptr)
    return gpus_->pin(mine.behind(0).data(), mine.size());
  return {};
}

lane_answer lane::answer_to(const lane_order& order, const run_function& run) {
  lane_answer out;
  waiting_.clear(); // outputs that the node did not fetch
  auto& memory = arenas_.at(order.arena);
  auto inputs = memory.view(order.tensors);
  if (!inputs)
    return say(out.text, inputs.failure().text), out;
  auto taken = arena::bytes_for(*inputs);
  output_room room{memory.behind(taken)};
  auto metered = order.meter != 0;
  use_threads(order.threads);
  auto outputs =
    run(*inputs, metered ? &out.peak : nullptr, metered ? nullptr : &room);
  if (room.kept) {
    out.keeps = 1;
    kept_.push_back(room.memory);
  }
  if (!outputs) {
    auto failed = failure_of(outputs.failure());
    failed.keeps = out.keeps;
    return failed;
  }
  if (auto copied = memory.put(*outputs, taken + room.used)) {
    out.what = lane_answer::done;
    out.tensors = static_cast<uint32_t>(outputs->size());
    out.copied = *copied;
    return out;
  }
  // Outputs that share the arena's memory keep it mapped.
  waiting_ = std::move(*outputs);
  out.what = lane_answer::needs_room;
  out.room = arena::bytes_for(waiting_);
  return out;
}

lane_answer lane::hand(const lane_order& order) {
  lane_answer out;
  auto outputs = std::exchange(waiting_, {});
  auto copied = arenas_.at(order.arena).put(outputs);
  if (!copied)
    return say(out.text, "the outputs do not fit"), out;
  out.what = lane_answer::done;
  out.copied = *copied;
  out.tensors = static_cast<uint32_t>(outputs.size());
  return out;
}

lane_answer lane::failure_of(const error& why) const {
  lane_answer out;
  if (gpus_ != nullptr && why.code == ec::overloaded)
    out.what = lane_answer::no_memory;
  else if (gpus_ != nullptr && why.code == ec::unavailable)
    out.what = lane_answer::gpu_is_lost;
  say(out.text, why.text);
  return out;
}

} // namespace millrace::confined
