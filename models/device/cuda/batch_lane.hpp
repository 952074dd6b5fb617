// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "models/device/cuda/pinned_pool.hpp"
#include "models/device/cuda/pinned_ranges.hpp"
#include "models/device/cuda/runtime.hpp"
#include "models/device/cuda/turns.hpp"

namespace millrace::cuda {

/// Bytes on their way from the host to a GPU, or back.
struct transfer {
  void* to;
  const void* from;
  size_t bytes;
};

/// What one batch needs at a time: streams on which inputs are copied in and
/// outputs out, beside that on which others compute, too; joined by events, so
/// that none waits for more than it has to. Where batches are not `streaming`
/// all of it is on the compute stream. (The interference framework, 2.5.)
class batch_lane {
public:
  batch_lane(cudaStream_t compute, bool streaming)
    : compute_(compute),
      streaming_(streaming) {}

  cudaStream_t compute() const { return compute_; }

  /// Where inputs are copied to may be what was let go by work that the compute
  /// stream has been given: they wait for that.
  void hold_inputs();

  /// Copies inputs in; such as are not page-locked by way of memory of the
  /// lane's that is, which it takes from the pool when it has too little.
  void copy_in(const std::vector<transfer>& inputs, pinned_pool& staging,
               const pinned_ranges& pinned);

  /// What the compute stream is given from now on has its inputs.
  void begin_compute() const { copied_in_.hold(compute_); }
  void end_compute() { computed_.record(compute_); }

  /// Copies outputs out, all to page-locked memory, once they are computed.
  void copy_out(const std::vector<transfer>& outputs);

  /// Until they are there.
  void wait() const { copied_out_.wait(); }

  /// What it was given is done with, however that ended.
  void abandon() const noexcept;

private:
  cudaStream_t in() const { return streaming_ ? in_.get() : compute_; }
  cudaStream_t out() const { return streaming_ ? out_.get() : compute_; }

  cudaStream_t compute_;
  bool streaming_;
  stream in_, out_;
  event copied_in_, computed_, copied_out_;
  pinned_pool::block staging_;
};

/// Runs one batch: gives the compute stream its work in the order of `order`,
/// for a recording of another's would take it in. Inputs are copied in out of
/// turn where batches are streaming; else no batch begins before the one before
/// has ended. What a Batch does: is_known() whether there is room for such
/// inputs, else make_room(); copy_in(), compute(), copy_out(); wait(); and, if
/// one of them throws, abandon().
template <class Batch>
void run_in_turn(turns& order, bool streaming, Batch& x) {
  std::unique_lock turn{order, std::defer_lock};
  auto begin_turn = [&] {
    if (streaming)
      turn.lock();
  };
  auto end_turn = [&] {
    if (streaming)
      turn.unlock();
  };
  try {
    if (!streaming)
      turn.lock();
    if (!x.is_known()) {
      begin_turn();
      x.make_room();
      end_turn();
    }
    x.copy_in();
    begin_turn();
    x.compute();
    x.copy_out();
    end_turn();
    x.wait();
  } catch (...) {
    if (!turn.owns_lock())
      turn.lock();
    x.abandon();
    throw;
  }
}

} // namespace millrace::cuda
