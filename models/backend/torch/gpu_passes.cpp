// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/gpu_passes.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "models/backend/torch/gpus.hpp"
#include "models/backend/torch/plugin_calls.hpp"
#include "models/gpu/cuda/batch_lane.hpp"
#include "models/gpu/cuda/missing_ranges.hpp"
#include "models/gpu/cuda/upload.hpp"

namespace millrace {

namespace {

using cuda::check;

/// Per lane; inputs of further shapes are allocated anew in each pass.
constexpr size_t most_known_shapes = 16;

/// A shape is recorded after this many passes.
constexpr uint64_t often = 3;

/// Granularity of progress for parameters that stay on the host.
constexpr size_t told_after = 8 << 20;

/// LibTorch's alignment of host memory.
constexpr size_t room_alignment = 64;

at::TensorOptions options_of(const millrace_tensor& x, c10::Device on) {
  return at::TensorOptions().dtype(scalar_types[x.dtype]).device(on);
}

size_t aligned(size_t n) {
  return (n + room_alignment - 1) / room_alignment * room_alignment;
}

/// GPU memory that LibTorch has reserved in this process, in use or not:
/// activations, workspaces, recordings.
uint64_t reserved_on(int gpu) {
  auto index = static_cast<c10::DeviceIndex>(gpu);
  static std::once_flag once; // the first tensor initialises the allocator
  std::call_once(once, [&] {
    at::empty({0}, at::TensorOptions().device(at::kCUDA, index));
  });
  auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
  // Of all pools.
  return static_cast<uint64_t>(stats.reserved_bytes.front().current);
}

/// Reserved memory of one stream.
uint64_t reserved_for(cudaStream_t stream, int gpu) {
  uint64_t out = 0;
  for (auto& x : c10::cuda::CUDACachingAllocator::snapshot().segments)
    if (x.stream == stream && x.device == gpu)
      out += x.total_size;
  return out;
}

} // namespace

/// Buffers and recording of one shape on one lane.
struct gpu_passes::known_shape {
  gpu_passes::tensors inputs;  ///< on the GPU: fixed inputs of all passes
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

/// Resources of one running pass.
struct gpu_passes::lane {
  lane(cudaStream_t on, const millrace_place& place)
    : batch(on, place.streaming != 0),
      compute(c10::cuda::getStreamFromExternal(
        on, static_cast<c10::DeviceIndex>(place.gpu))) {}

  cuda::batch_lane batch;
  c10::cuda::CUDAStream compute; ///< the same stream, as LibTorch's type
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
    ++gpu.stages;
  }

  /// LibTorch keeps its memory of the stream, for the next stage.
  ~state() {
    --gpu.stages;
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

  /// GPU memory reserved for passes.
  uint64_t reserved() const {
    if (gpu.stages == 1)
      return reserved_on(place.gpu);
    if (place.sharing != millrace_in_turn)
      return reserved_for(stream, place.gpu);
    uint64_t out = 0; // shared stream: only buffers known to be the stage's own
    std::lock_guard guard{mutex};
    for (auto& l : free)
      for (auto& [_, x] : l->known)
        out += x.bytes();
    return out;
  }

  /// Copies these parameters and wakes the threads that wait for them.
  void copy(size_t begin, size_t end) {
    if (!parameters.is_on_host())
      return gpu.uploads.copy(
        parameters.data() + begin, source + begin, end - begin, {},
        [&](size_t there) { missing.remove(begin, begin + there); });
    for (size_t next; begin < end; begin = next) {
      next = std::min(begin + told_after, end);
      std::memcpy(parameters.data() + begin, source + begin, next - begin);
      missing.remove(begin, next);
    }
  }

  std::unique_ptr<lane> take_lane() {
    std::lock_guard guard{mutex};
    if (free.empty())
      return std::make_unique<lane>(stream, place);
    auto out = std::move(free.back());
    free.pop_back();
    return out;
  }

  void give_back(std::unique_ptr<lane> x) {
    std::lock_guard guard{mutex};
    free.push_back(std::move(x));
  }

  millrace_place place;
  gpu_environment& gpu;
  std::optional<cuda::partitions::slice> part;
  std::optional<cuda::stream> own;
  cudaStream_t stream = nullptr;
  cuda::turns own_turns;
  const char* source = nullptr; ///< of the parameters, on the host
  cuda::memory parameters;
  /// Parts of `parameters` that were not copied yet.
  cuda::missing_ranges missing;
  std::vector<cuda::missing_ranges::range> ranges; ///< place of each parameter
  std::atomic<bool> complete = false;              ///< nothing is missing
  bool records = false;
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<lane>> free; ///< guarded
};

/// One pass on a lane of its own: a Batch of run_in_turn.
class gpu_passes::pass {
public:
  pass(state& owner, lane& on, const pass_order& order)
    : owner_(owner),
      on_(on),
      order_(order),
      key_(shapes_of(order.inputs, order.input_count)) {}

  /// Whether the lane has buffers for such inputs.
  bool is_known() {
    auto i = on_.known.find(key_);
    shape_ = i == on_.known.end() ? nullptr : &i->second;
    return shape_ != nullptr;
  }

  void make_room() {
    auto few = on_.known.size() < most_known_shapes;
    shape_ = few ? &on_.known[key_] : &passing_;
    shape_->can_be_recorded = few;
    c10::cuda::CUDAStreamGuard guard{on_.compute};
    for (uint32_t i = 0; i < order_.input_count; ++i)
      shape_->inputs.push_back(
        at::empty(extents_of(order_.inputs[i]),
                  options_of(order_.inputs[i], owner_.device())));
    on_.batch.hold_inputs();
  }

  void copy_in() {
    std::vector<cuda::transfer> all;
    for (uint32_t i = 0; i < order_.input_count; ++i)
      all.push_back({shape_->inputs[i].data_ptr(), order_.inputs[i].data,
                     order_.inputs[i].bytes});
    on_.batch.copy_in(all, owner_.gpu.staging, pinned_memory());
  }

  void compute() {
    c10::cuda::CUDAStreamGuard guard{on_.compute};
    on_.batch.begin_compute();
    auto& x = *shape_;
    ++x.passes;
    if (owner_.records && !order_.metered && x.can_be_recorded && !x.recording
        && x.passes > often)
      record();
    if (x.recording && !order_.metered) {
      x.recording->replay();
      results_ = x.outputs;
    } else {
      results_ = order_.how(x.inputs);
    }
    on_.batch.end_compute();
  }

  void copy_out() {
    if (results_.size() > order_.output_capacity)
      throw std::runtime_error("the model returned more tensors than fit");
    auto* room = order_.room;
    auto usable =
      room != nullptr && pinned_memory().have(room->begin, room->bytes);
    std::vector<cuda::transfer> all;
    for (size_t i = 0; i < results_.size(); ++i) {
      auto& x = results_[i];
      auto& out = order_.outputs[i];
      describe_type(x, out);
      auto* to = usable ? take_from(*room, x.nbytes()) : nullptr;
      if (to == nullptr)
        to = take_block(out);
      out.data = to;
      *order_.output_count = static_cast<uint32_t>(i + 1);
      all.push_back({to, x.data_ptr(), x.nbytes()});
    }
    on_.batch.copy_out(all);
  }

  void wait() { on_.batch.wait(); }

  /// Also releases its outputs.
  void abandon() noexcept {
    on_.batch.abandon();
    for (uint32_t i = 0; i < *order_.output_count; ++i)
      if (order_.outputs[i].release != nullptr)
        order_.outputs[i].release(order_.outputs[i].owner);
  }

private:
  /// Records the pass. If that fails, the shape is run without a recording from
  /// now on.
  void record() {
    auto& x = *shape_;
    auto recording = std::make_unique<at::cuda::CUDAGraph>();
    recording->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      x.outputs = order_.how(x.inputs);
      recording->capture_end();
      x.recording = std::move(recording);
      return;
    } catch (const std::exception&) {
      x.can_be_recorded = false;
    }
    x.outputs.clear();
    try { // ends a failed capture; its error has no meaning
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
  const pass_order& order_;
  tensor_shapes key_;
  known_shape* shape_ = nullptr;
  known_shape passing_; ///< for a shape beyond most_known_shapes
  tensors results_;
};

gpu_passes::gpu_passes(const millrace_place& place)
  : state_(std::make_unique<state>(place)) {
}

gpu_passes::~gpu_passes() {
  static_cast<void>(cudaSetDevice(state_->place.gpu));
  state_.reset();
  try { // returns unused memory to the GPU
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const std::exception&) { // the GPU is lost
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
  if (begin < end) { // keep the alignment of the source
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
    auto offset = x->bytes == 0 ? 0 : address(x->data) - begin;
    state_->ranges.emplace_back(offset, offset + x->bytes);
    auto* there = state_->parameters.data() + offset;
    out.push_back(x->bytes == 0
                    ? at::empty(extents_of(*x), options)
                    : at::from_blob(there, extents_of(*x), options));
  }
  return out;
}

void gpu_passes::arrive(const char* begin, size_t bytes) {
  auto& s = *state_;
  check(cudaSetDevice(s.place.gpu), "choosing a GPU");
  size_t first = 0, last = s.parameters.size();
  if (begin != nullptr) { // clipped to the parameters
    auto at = begin - s.source;
    auto within = [&](std::ptrdiff_t n) {
      return static_cast<size_t>(
        std::clamp<std::ptrdiff_t>(n, 0, static_cast<std::ptrdiff_t>(last)));
    };
    first = within(at);
    last = within(at + static_cast<std::ptrdiff_t>(bytes));
  }
  for (auto& x : s.missing.within(first, last))
    s.copy(x.first, x.second);
  s.complete = s.missing.within(0, s.parameters.size()).empty();
}

void gpu_passes::await(size_t first, size_t last) const {
  auto& s = *state_;
  for (auto i = first; i < last && !s.complete; ++i)
    if (auto [begin, end] = s.ranges[i]; !s.missing.wait(begin, end))
      throw std::runtime_error("not all of its parameters have arrived");
}

void gpu_passes::give_up() {
  state_->missing.give_up();
}

void gpu_passes::record() {
  state_->records = state_->place.graphs != 0;
}

uint64_t gpu_passes::memory() const {
  auto& s = *state_;
  auto parameters = s.parameters.is_on_host() ? 0 : s.parameters.size();
  return parameters + s.reserved();
}

void gpu_passes::run(const pass_order& order) {
  auto& s = *state_;
  check(cudaSetDevice(s.place.gpu), "choosing a GPU");
  auto on = s.take_lane();
  *order.output_count = 0;
  pass mine{s, *on, order};
  // A lane on which a pass fails is not used again.
  cuda::run_in_turn(s.turns(), s.place.streaming != 0, mine);
  s.give_back(std::move(on));
}

} // namespace millrace
