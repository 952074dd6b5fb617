// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace millrace::cuda {

/// Where a pool's memory comes from.
class pinned_source {
public:
  virtual ~pinned_source() = default;
  virtual void* allocate(size_t bytes) = 0; ///< or throws
  virtual void release(void* x) = 0;
};

/// The CUDA runtime's: page-locked, for all GPUs.
std::unique_ptr<pinned_source> pinned_by_cuda();

/// Host memory that a GPU copies from and to by itself. To make some takes
/// milliseconds, so what was used is kept: once each size that is in use at a
/// time was taken, no batch allocates any. Blocks may outlive the pool. Any
/// thread.
class pinned_pool {
  struct shelf;

public:
  explicit pinned_pool(std::unique_ptr<pinned_source> from);

  /// Goes back to the pool when it is gone.
  class block {
  public:
    block() = default;
    block(block&& x) noexcept { *this = std::move(x); }
    block& operator=(block&& x) noexcept {
      std::swap(from_, x.from_);
      std::swap(data_, x.data_);
      std::swap(size_, x.size_);
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

  /// At least so many bytes: a power of two, 64 KiB or more. Throws what its
  /// source does.
  block take(size_t bytes);

  /// How often it had to ask its source.
  size_t allocations() const;

private:
  std::shared_ptr<shelf> shelf_;
};

} // namespace millrace::cuda
