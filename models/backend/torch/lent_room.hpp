// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/backend/abi.h"

namespace millrace {

/// Which allocations of a pass on its thread become its outputs, by number from
/// 0. Learned from earlier passes, per shape of inputs. After a wrong guess an
/// output is copied; there is no other effect. Any thread.
class output_places {
public:
  using shapes = std::vector<int64_t>;

  /// In ascending order; none for unknown shapes.
  std::vector<uint32_t> find(const shapes& of) const;
  void learn(const shapes& of, std::vector<uint32_t> places);

  /// Forgets all places and learns no more.
  void give_up();

private:
  mutable std::mutex mutex_;
  std::map<shapes, std::vector<uint32_t>> known_; ///< guarded
  bool given_up_ = false;                         ///< guarded
};

/// During its lifetime, makes LibTorch allocate the outputs of this thread's
/// pass in memory that the caller lends. Other allocations are unchanged.
class lent_room {
public:
  lent_room(output_places& places, output_places::shapes inputs,
            millrace_room& room);

  /// To be called when the pass's tensors are freed, except those that the
  /// model keeps.
  ~lent_room();
  lent_room(const lent_room&) = delete;
  lent_room& operator=(const lent_room&) = delete;

  /// Learns which allocations the outputs were.
  void learn(const std::vector<at::Tensor>& outputs);

  bool holds(const at::Tensor& value) const;

  /// Memory for the pass's next allocation; null: not in the room.
  void* place(size_t bytes);

  /// Notes the address of the last allocation.
  void made(void* at) { made_.push_back(at); }

private:
  output_places& places_;
  output_places::shapes inputs_;
  millrace_room& room_;
  std::vector<uint32_t> wanted_;
  size_t next_ = 0;           ///< index in wanted_
  std::vector<void*> made_;   ///< address of each allocation
  std::vector<void*> placed_; ///< those in the room
};

/// Installs the allocator; before several threads allocate.
void install_lent_rooms();

} // namespace millrace
