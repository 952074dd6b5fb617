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

/// The process's end of one lane, on a thread of its own: executes the orders
/// of the node.
class lane {
public:
  /// Runs the model. Outputs are made in `room` if possible. If `peak` is not
  /// null, it receives the bytes of memory that the run took.
  using run_function = std::function<result<tensor_list>(
    const tensor_list& inputs, uint64_t* peak, output_room* room)>;

  /// Sets the number of threads that the calling thread computes with.
  using enter_function = std::function<void(uint32_t threads)>;

  /// With GPUs, the arenas are pinned for copies from and to the GPU. `threads`
  /// is the number of threads that the serving thread computes with now; 0:
  /// orders do not set it.
  lane(file_descriptor node, gpu_access* gpus, enter_function enter = {},
       uint32_t threads = 0)
    : node_(std::move(node)),
      gpus_(gpus),
      enter_(std::move(enter)),
      threads_(threads) {}
  ~lane();
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  /// Serves until the node closes the lane. Ends the process if its GPU is
  /// lost.
  void serve(const run_function& run);

private:
  void let_go(arena& unused);
  void use_threads(uint32_t wanted);
  result<void> take_memory(const lane_order& order,
                           std::vector<file_descriptor>& files);
  lane_answer answer_to(const lane_order& order, const run_function& run);
  lane_answer hand(const lane_order& order);
  lane_answer failure_of(const error& why) const;

  file_descriptor node_;
  gpu_access* gpus_;
  enter_function enter_;
  uint32_t threads_;
  std::array<arena, arena_pool::size> arenas_; ///< by number
  tensor_list waiting_;            ///< outputs that did not fit into the arena
  std::vector<shared_bytes> kept_; ///< memory of tensors that the model keeps
};

} // namespace millrace::confined
