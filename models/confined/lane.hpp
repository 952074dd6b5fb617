// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "models/backend/backend.hpp"
#include "models/confined/arena_pool.hpp"
#include "models/confined/orders.hpp"
#include "runtime/records.hpp"

namespace millrace::confined {

/// A process's end of one lane, on a thread of its own: runs what the node
/// orders.
class lane {
public:
  /// Makes outputs of inputs, in the room that it is given if it can; or, where
  /// it is asked to, says what memory that took.
  using run_function = std::function<result<tensor_list>(
    const tensor_list& inputs, uint64_t* peak, output_room* room)>;

  /// Sets the number of threads that the calling thread computes with.
  using enter_function = std::function<void(uint32_t threads)>;

  /// With GPUs these copy from and to the memory that inputs and outputs lie
  /// in. The thread that serves computes with `threads` so far; 0: no order
  /// names any.
  lane(file_descriptor node, gpu_access* gpus, enter_function enter = {},
       uint32_t threads = 0)
    : node_(std::move(node)),
      gpus_(gpus),
      enter_(std::move(enter)),
      threads_(threads) {}
  ~lane();
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  /// Until the node says no more. Ends the process when its GPU is lost.
  void serve(const run_function& run);

private:
  void let_go(arena& x);
  void use_threads(uint32_t wanted);
  result<void> take_memory(const lane_order& order,
                           std::vector<file_descriptor>& files);
  lane_answer answer_to(const lane_order& order, const run_function& run);
  lane_answer hand(const lane_order& order);
  lane_answer failure_of(const error& x) const;

  file_descriptor node_;
  gpu_access* gpus_;
  enter_function enter_;
  uint32_t threads_;
  std::array<arena, arena_pool::size> arenas_; ///< by number
  tensor_list waiting_;            ///< outputs for which there was no room
  std::vector<shared_bytes> kept_; ///< where tensors lie that the model keeps
};

} // namespace millrace::confined
