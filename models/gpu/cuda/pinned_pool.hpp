// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace millrace::cuda {

/// The allocator of a pool.
class pinned_source {
public:
  virtual ~pinned_source() = default;
  virtual void* allocate(size_t bytes) = 0; ///< throws on failure
  virtual void release(void* address) = 0;
};

/// The CUDA runtime's allocator: page-locked memory, for all GPUs.
std::unique_ptr<pinned_source> pinned_by_cuda();

/// Page-locked host memory that a GPU copies from and to directly. An
/// allocation takes milliseconds, so blocks are kept: after each size has been
/// in use once, batches allocate nothing. Blocks may outlive the pool. Any
/// thread.
class pinned_pool {
  struct shelf;

public:
  explicit pinned_pool(std::unique_ptr<pinned_source> from);

  /// A block, which the destructor returns to the pool.
  class block {
  public:
    block() = default;
    block(block&& other) noexcept { *this = std::move(other); }
    block& operator=(block&& other) noexcept {
      std::swap(from_, other.from_);
      std::swap(data_, other.data_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~block();

    char* data() const { return data_; }
    size_t size() const { return size_; }

  private:
    friend class pinned_pool;
    std::shared_ptr<shelf> from_;
    char* data_ = nullptr;
    size_t size_ = 0;
  };

  /// A block of at least `bytes` bytes: a power of two, 64 KiB or more. Throws
  /// as the source.
  block take(size_t bytes);

  /// Number of allocations from the source.
  size_t allocations() const;

private:
  std::shared_ptr<shelf> shelf_;
};

} // namespace millrace::cuda
