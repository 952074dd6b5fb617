// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/gpu_passes.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "models/backend/torch/gpus.hpp"
#include "models/backend/torch/plugin_calls.hpp"
#include "models/device/cuda/missing_ranges.hpp"
#include "models/device/cuda/upload.hpp"

namespace millrace {

namespace {

using cuda::check;

/// Of a lane; those of another are made anew each time.
constexpr size_t most_known_shapes = 16;

/// A shape that comes so often is worth a recording.
constexpr uint64_t often = 3;

/// As LibTorch aligns what it allocates on the host.
constexpr size_t room_alignment = 64;

at::TensorOptions options_of(const millrace_tensor& x, c10::Device on) {
  return at::TensorOptions().dtype(scalar_types[x.dtype]).device(on);
}

size_t aligned(size_t n) {
  return (n + room_alignment - 1) / room_alignment * room_alignment;
}

} // namespace

/// What passes of one shape have on one lane.
struct gpu_passes::known_shape {
  gpu_passes::tensors inputs;  ///< on the GPU: where each pass puts its own
  gpu_passes::tensors outputs; ///< of the recording
  std::unique_ptr<at::cuda::CUDAGraph> recording;
  bool can_be_recorded = true;
  uint64_t passes = 0;

  uint64_t bytes() const {
    uint64_t out = 0;
    for (auto* list : {&inputs, &outputs})
      for (auto& x : *list)
        out += x.nbytes();
    return out;
  }
};

/// What one pass needs at a time.
struct gpu_passes::lane {
  lane(cudaStream_t on, int gpu)
    : compute(c10::cuda::getStreamFromExternal(
      on, static_cast<c10::DeviceIndex>(gpu))) {}

  c10::cuda::CUDAStream compute;
  cuda::stream in, out;
  cuda::event copied_in, computed, copied_out;
  cuda::pinned_pool::block staging; ///< of inputs
  std::map<tensor_shapes, known_shape> known;
};

struct gpu_passes::state {
  explicit state(const millrace_place& x) : place(x), gpu(shared_gpu(x.gpu)) {
    if (place.sharing == millrace_partitioned) {
      part = gpu.partitions.take(place.share);
      stream = part->stream;
    } else if (place.sharing == millrace_in_turn) {
      stream = gpu.compute.get();
    } else {
      own = gpu.streams.take();
      stream = own->get();
    }
  }

  /// What LibTorch has for a stream stays with it: it is for the next stage.
  ~state() {
    free.clear();
    if (part)
      gpu.partitions.give_back(*part);
    if (own)
      gpu.streams.give_back(std::move(*own));
  }

  c10::Device device() const {
    return {at::kCUDA, static_cast<c10::DeviceIndex>(place.gpu)};
  }

  cuda::turns& turns() {
    return place.sharing == millrace_in_turn ? gpu.turns : own_turns;
  }

  std::unique_ptr<lane> take_lane() {
    std::lock_guard guard{mutex};
    if (free.empty())
      return std::make_unique<lane>(stream, place.gpu);
    auto out = std::move(free.back());
    free.pop_back();
    return out;
  }

  void give_back(std::unique_ptr<lane> x) {
    std::lock_guard guard{mutex};
    free.push_back(std::move(x));
  }

  millrace_place place;
  gpu_ground& gpu;
  std::optional<cuda::partitions::slice> part;
  std::optional<cuda::stream> own;
  cudaStream_t stream = nullptr;
  cuda::turns own_turns;
  const char* source = nullptr; ///< of the parameters, on the host
  cuda::memory parameters;
  cuda::missing_ranges missing; ///< of these, which were not copied yet
  bool records = false;
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<lane>> free; ///< guarded
};

/// One pass on a lane, which it has to itself. What it does with the stream
/// that others compute on, too, it does in its turn: another's recording would
/// take it in.
class gpu_passes::pass {
public:
  pass(state& owner, lane& on, const millrace_tensor* inputs, uint32_t count)
    : owner_(owner),
      on_(on),
      inputs_(inputs),
      count_(count),
      key_(shapes_of(inputs, count)) {}

  /// Whether the lane had such inputs before.
  bool is_known() {
    auto i = on_.known.find(key_);
    shape_ = i == on_.known.end() ? nullptr : &i->second;
    return shape_ != nullptr;
  }

  /// Makes room for them, in its turn.
  void make_room() {
    auto few = on_.known.size() < most_known_shapes;
    shape_ = few ? &on_.known[key_] : &passing_;
    shape_->can_be_recorded = few;
    c10::cuda::CUDAStreamGuard guard{on_.compute};
    for (uint32_t i = 0; i < count_; ++i)
      shape_->inputs.push_back(at::empty(
        extents_of(inputs_[i]), options_of(inputs_[i], owner_.device())));
    // That memory may be what work before on this stream has let go.
    on_.computed.record(on_.compute.stream());
    on_.computed.hold(in());
  }

  void copy_in() {
    size_t bytes = 0;
    for (uint32_t i = 0; i < count_; ++i)
      bytes += aligned(inputs_[i].bytes);
    if (bytes > on_.staging.size())
      on_.staging = owner_.gpu.staging.take(bytes);
    auto* staged = on_.staging.data();
    for (uint32_t i = 0; i < count_; ++i) {
      auto& x = inputs_[i];
      auto* from = static_cast<const char*>(x.data);
      if (x.bytes > 0 && !pinned_memory().have(from, x.bytes)) {
        std::memcpy(staged, from, x.bytes);
        from = staged;
        staged += aligned(x.bytes);
      }
      check(cudaMemcpyAsync(shape_->inputs[i].data_ptr(), from, x.bytes,
                            cudaMemcpyHostToDevice, in()),
            "copying inputs to the GPU");
    }
    on_.copied_in.record(in());
  }

  /// In its turn.
  void compute(const forward& how, bool metered) {
    c10::cuda::CUDAStreamGuard guard{on_.compute};
    on_.copied_in.hold(on_.compute.stream());
    auto& x = *shape_;
    ++x.passes;
    if (owner_.records && !metered && x.can_be_recorded && !x.recording
        && x.passes > often)
      record(how);
    if (x.recording && !metered) {
      x.recording->replay();
      results_ = x.outputs;
    } else {
      results_ = how(x.inputs);
    }
    on_.computed.record(on_.compute.stream());
  }

  void copy_out(millrace_room* room, millrace_tensor* outputs,
                uint32_t capacity, uint32_t* output_count) {
    if (results_.size() > capacity)
      throw std::runtime_error("the model returned more tensors than fit");
    on_.computed.hold(out());
    auto usable =
      room != nullptr && pinned_memory().have(room->begin, room->bytes);
    for (size_t i = 0; i < results_.size(); ++i) {
      auto& x = results_[i];
      describe_type(x, outputs[i]);
      auto* to = usable ? take_from(*room, x.nbytes()) : nullptr;
      if (to == nullptr)
        to = take_block(outputs[i]);
      outputs[i].data = to;
      *output_count = static_cast<uint32_t>(i + 1);
      check(
        cudaMemcpyAsync(to, x.data_ptr(), x.nbytes(), cudaMemcpyDefault, out()),
        "copying outputs from the GPU");
    }
    on_.copied_out.record(out());
  }

  void wait() { on_.copied_out.wait(); }

  /// What was given to the GPU is done with, however that ended; in its turn.
  void abandon() noexcept {
    for (auto x : {in(), on_.compute.stream(), out()})
      static_cast<void>(cudaStreamSynchronize(x));
    static_cast<void>(cudaGetLastError());
  }

private:
  cudaStream_t in() const {
    return owner_.place.streaming != 0 ? on_.in.get() : on_.compute.stream();
  }
  cudaStream_t out() const {
    return owner_.place.streaming != 0 ? on_.out.get() : on_.compute.stream();
  }

  /// What cannot be recorded is run like the first time, from now on.
  void record(const forward& how) {
    auto& x = *shape_;
    auto recording = std::make_unique<at::cuda::CUDAGraph>();
    recording->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      x.outputs = how(x.inputs);
      recording->capture_end();
      x.recording = std::move(recording);
      return;
    } catch (const std::exception&) {
      x.can_be_recorded = false;
    }
    x.outputs.clear();
    try { // a capture that failed has ended, whatever that says
      recording->capture_end();
    } catch (const std::exception&) {
    }
    static_cast<void>(cudaGetLastError());
  }

  static char* take_from(millrace_room& room, size_t bytes) {
    auto used = aligned(room.used);
    if (used > room.bytes || bytes > room.bytes - used)
      return nullptr;
    room.used = used + bytes;
    return static_cast<char*>(room.begin) + used;
  }

  char* take_block(millrace_tensor& x) {
    using block = cuda::pinned_pool::block;
    auto* kept = new block{owner_.gpu.staging.take(x.bytes)};
    x.owner = kept;
    x.release = [](void* p) { delete static_cast<block*>(p); };
    return kept->data();
  }

  state& owner_;
  lane& on_;
  const millrace_tensor* inputs_;
  uint32_t count_;
  tensor_shapes key_;
  known_shape* shape_ = nullptr;
  known_shape passing_; ///< of a shape that is one too many
  tensors results_;
};

gpu_passes::gpu_passes(const millrace_place& place)
  : state_(std::make_unique<state>(place)) {
}

gpu_passes::~gpu_passes() {
  static_cast<void>(cudaSetDevice(state_->place.gpu));
  state_.reset();
  try { // what nobody has any more goes back to the GPU
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const std::exception&) { // which is lost
  }
}

c10::Device gpu_passes::device() const {
  return state_->device();
}

gpu_passes::tensors
gpu_passes::place(const std::vector<const millrace_tensor*>& parameters) {
  constexpr uintptr_t alignment = 256;
  auto address = [](const void* x) { return reinterpret_cast<uintptr_t>(x); };
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (auto* x : parameters)
    if (x->bytes > 0) {
      begin = std::min(begin, address(x->data));
      end = std::max(end, address(x->data) + x->bytes);
    }
  check(cudaSetDevice(state_->place.gpu), "choosing a GPU");
  if (begin < end) { // as they are aligned there, so they are here
    begin -= begin % alignment;
    state_->parameters = state_->place.on_host != 0
                           ? cuda::memory::of_host(end - begin)
                           : cuda::memory::of_gpu(end - begin);
    state_->source = reinterpret_cast<const char*>(begin);
    state_->missing.add(0, end - begin);
  }
  tensors out;
  for (auto* x : parameters) {
    auto options = options_of(*x, device());
    if (x->bytes == 0)
      out.push_back(at::empty(extents_of(*x), options));
    else
      out.push_back(
        at::from_blob(state_->parameters.data() + (address(x->data) - begin),
                      extents_of(*x), options));
  }
  return out;
}

void gpu_passes::arrive(const char* begin, size_t bytes) {
  auto& s = *state_;
  check(cudaSetDevice(s.place.gpu), "choosing a GPU");
  size_t first = 0, last = s.parameters.size();
  if (begin != nullptr) { // as much of it as there are parameters
    auto at = begin - s.source;
    auto within = [&](std::ptrdiff_t n) {
      return static_cast<size_t>(
        std::clamp<std::ptrdiff_t>(n, 0, static_cast<std::ptrdiff_t>(last)));
    };
    first = within(at);
    last = within(at + static_cast<std::ptrdiff_t>(bytes));
  }
  for (auto [from, to] : s.missing.take(first, last))
    if (s.parameters.is_on_host())
      std::memcpy(s.parameters.data() + from, s.source + from, to - from);
    else
      cuda::upload(s.parameters.data() + from, s.source + from, to - from,
                   s.gpu.staging, s.gpu.uploads);
}

void gpu_passes::record() {
  state_->records = state_->place.graphs != 0;
}

uint64_t gpu_passes::memory() const {
  std::lock_guard guard{state_->mutex};
  uint64_t out =
    state_->parameters.is_on_host() ? 0 : state_->parameters.size();
  for (auto& l : state_->free)
    for (auto& [_, x] : l->known)
      out += x.bytes();
  return out;
}

void gpu_passes::run(const millrace_tensor* inputs, uint32_t count,
                     const forward& how, bool metered, millrace_room* room,
                     millrace_tensor* outputs, uint32_t capacity,
                     uint32_t* output_count) {
  auto& s = *state_;
  check(cudaSetDevice(state_->place.gpu), "choosing a GPU");
  auto on = s.take_lane();
  *output_count = 0;
  pass mine{s, *on, inputs, count};
  std::unique_lock turn{s.turns(), std::defer_lock};
  auto streaming = s.place.streaming != 0;
  try {
    if (!streaming) // one after the other, copies and all
      turn.lock();
    if (!mine.is_known()) {
      if (streaming)
        turn.lock();
      mine.make_room();
      if (streaming)
        turn.unlock();
    }
    mine.copy_in();
    if (streaming)
      turn.lock();
    mine.compute(how, metered);
    mine.copy_out(room, outputs, capacity, output_count);
    if (streaming)
      turn.unlock();
    mine.wait();
  } catch (...) {
    if (!turn.owns_lock())
      turn.lock();
    mine.abandon();
    for (uint32_t i = 0; i < *output_count; ++i)
      if (outputs[i].release != nullptr)
        outputs[i].release(outputs[i].owner);
    throw; // and the lane is not used again
  }
  s.give_back(std::move(on));
}

} // namespace millrace
