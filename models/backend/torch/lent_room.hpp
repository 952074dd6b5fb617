// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/backend/abi.h"

namespace millrace {

/// Of the allocations that a pass makes on its thread, the first being 0, those
/// that become its outputs: learned from the passes before, for each shape of
/// inputs. Where that is wrong an output is copied, and nothing else happens.
/// Any thread.
class output_places {
public:
  using shapes = std::vector<int64_t>;

  /// In their order; none for shapes that are new.
  std::vector<uint32_t> find(const shapes& of) const;
  void learn(const shapes& of, std::vector<uint32_t> places);

  /// From now on there are none.
  void give_up();

private:
  mutable std::mutex mutex_;
  std::map<shapes, std::vector<uint32_t>> known_; ///< guarded
  bool given_up_ = false;                         ///< guarded
};

/// Has LibTorch make the outputs of this thread's pass in memory that its
/// caller lends, while this lives. All else is allocated as ever.
class lent_room {
public:
  lent_room(output_places& places, output_places::shapes inputs,
            millrace_room& room);

  /// When the pass's tensors are gone, but for those that the model keeps.
  ~lent_room();
  lent_room(const lent_room&) = delete;
  lent_room& operator=(const lent_room&) = delete;

  /// Learns where the outputs were made.
  void learn(const std::vector<at::Tensor>& outputs);

  bool holds(const at::Tensor& x) const;

  /// Room for the pass's next allocation; null: it is not to be made there.
  void* place(size_t bytes);

  /// Where that was made.
  void made(void* at) { made_.push_back(at); }

private:
  output_places& places_;
  output_places::shapes inputs_;
  millrace_room& room_;
  std::vector<uint32_t> wanted_;
  size_t next_ = 0;           ///< of those
  std::vector<void*> made_;   ///< each allocation's memory
  std::vector<void*> placed_; ///< of these, what lies in the room
};

/// Makes it possible; before anything is allocated by several threads.
void install_lent_rooms();

} // namespace millrace
