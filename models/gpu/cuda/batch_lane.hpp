// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "models/gpu/cuda/pinned_pool.hpp"
#include "models/gpu/cuda/pinned_ranges.hpp"
#include "models/gpu/cuda/runtime.hpp"
#include "models/gpu/cuda/turns.hpp"

namespace millrace::cuda {

/// Bytes to copy from the host to a GPU, or back.
struct transfer {
  void* to;
  const void* from;
  size_t bytes;
};

/// The streams of one running batch: inputs are copied in and outputs out on
/// streams of their own, beside the compute stream, which batches may share.
/// Events join them, so that no stream waits longer than necessary. Without
/// `streaming` all work is on the compute stream. (The interference framework,
/// 2.5.)
class batch_lane {
public:
  batch_lane(cudaStream_t compute, bool streaming)
    : compute_(compute),
      streaming_(streaming) {}

  cudaStream_t compute() const { return compute_; }

  /// Makes copies of inputs wait for the present work of the compute stream,
  /// which may still read the memory that they overwrite.
  void hold_inputs();

  /// Copies inputs in. Inputs that are not page-locked go through page-locked
  /// memory of the lane, taken from the pool when needed.
  void copy_in(const std::vector<transfer>& inputs, pinned_pool& staging,
               const pinned_ranges& pinned);

  /// Makes later work of the compute stream wait for the inputs.
  void begin_compute() const { copied_in_.hold(compute_); }
  void end_compute() { computed_.record(compute_); }

  /// Copies outputs to page-locked memory, once they are computed.
  void copy_out(const std::vector<transfer>& outputs);

  /// Waits until the outputs are present.
  void wait() const { copied_out_.wait(); }

  /// Waits for all submitted work and ignores its errors.
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

/// Runs one batch: submits work to the compute stream in FIFO order (`order`),
/// because a recording would include another batch's work. With `streaming`,
/// inputs are copied in before the batch's turn; else each batch starts after
/// the end of the one before. A Batch has:
/// - is_known(): whether memory for such inputs exists; else make_room();
/// - copy_in(), compute(), copy_out(), wait();
/// - abandon(), called if one of these throws.
template <class Batch>
void run_in_turn(turns& order, bool streaming, Batch& batch) {
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
    if (!batch.is_known()) {
      begin_turn();
      batch.make_room();
      end_turn();
    }
    batch.copy_in();
    begin_turn();
    batch.compute();
    batch.copy_out();
    end_turn();
    batch.wait();
  } catch (...) {
    if (!turn.owns_lock())
      turn.lock();
    batch.abandon();
    throw;
  }
}

} // namespace millrace::cuda
