// SPDX-License-Identifier: Apache-2.0
#include "models/gpu/cuda/pinned_pool.hpp"

#include "models/gpu/cuda/runtime.hpp"

namespace millrace::cuda {

namespace {

constexpr unsigned smallest = 16; ///< as a power of two
constexpr unsigned largest = 48;

unsigned power_for(size_t bytes) {
  auto out = smallest;
  while (out < largest && (size_t{1} << out) < bytes)
    ++out;
  return out;
}

class cuda_source : public pinned_source {
public:
  void* allocate(size_t bytes) override {
    void* out = nullptr;
    check(cudaHostAlloc(&out, bytes, cudaHostAllocPortable),
          "taking page-locked memory");
    return out;
  }
  void release(void* address) override {
    static_cast<void>(cudaFreeHost(address));
  }
};

} // namespace

std::unique_ptr<pinned_source> pinned_by_cuda() {
  return std::make_unique<cuda_source>();
}

struct pinned_pool::shelf {
  explicit shelf(std::unique_ptr<pinned_source> x) : source(std::move(x)) {}

  ~shelf() {
    for (auto& list : kept)
      for (auto* x : list)
        source->release(x);
  }

  std::unique_ptr<pinned_source> source;
  std::mutex mutex;
  std::array<std::vector<void*>, largest + 1> kept; ///< guarded; by power
  std::atomic<size_t> allocations{0};
};

pinned_pool::pinned_pool(std::unique_ptr<pinned_source> from)
  : shelf_(std::make_shared<shelf>(std::move(from))) {
}

pinned_pool::block::~block() {
  if (data_ == nullptr)
    return;
  std::lock_guard guard{from_->mutex};
  from_->kept[power_for(size_)].push_back(data_);
}

pinned_pool::block pinned_pool::take(size_t bytes) {
  auto power = power_for(bytes);
  block out;
  out.size_ = size_t{1} << power;
  out.from_ = shelf_;
  {
    std::lock_guard guard{shelf_->mutex};
    auto& list = shelf_->kept[power];
    if (!list.empty()) {
      out.data_ = static_cast<char*>(list.back());
      list.pop_back();
      return out;
    }
  }
  out.data_ = static_cast<char*>(shelf_->source->allocate(out.size_));
  ++shelf_->allocations;
  return out;
}

size_t pinned_pool::allocations() const {
  return shelf_->allocations;
}

} // namespace millrace::cuda
