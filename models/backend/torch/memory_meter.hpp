// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace millrace {

/// The third argument of reports of memory: its type differs between LibTorch
/// 1.13 and 2.x.
template <class>
struct total_type;

template <class C, class T>
struct total_type<void (C::*)(void*, int64_t, T, T, c10::Device)> {
  using type = T;
};

/// Measures the highest number of bytes of tensors that this thread allocates
/// at once during the meter's lifetime. Costs a lock and a table entry per
/// allocation. Does not see LibTorch's other threads, nor the memory of oneDNN
/// and BLAS.
/// https://pytorch.org/cppdocs/ , c10::MemoryReportingInfoBase
class memory_meter {
public:
  uint64_t peak() const { return static_cast<uint64_t>(counts_->peak); }

private:
  struct counts final : c10::MemoryReportingInfoBase {
    using total =
      total_type<decltype(&MemoryReportingInfoBase::reportMemoryUsage)>::type;

    void reportMemoryUsage(void*, int64_t bytes, total, total,
                           c10::Device) override {
      held += bytes;
      peak = std::max(peak, held);
    }

    bool memoryProfilingEnabled() const override { return true; }

    int64_t held = 0;
    int64_t peak = 0;
  };

  std::shared_ptr<counts> counts_ = std::make_shared<counts>();
  c10::DebugInfoGuard reporting_{c10::DebugInfoKind::PROFILER_STATE, counts_};
};

} // namespace millrace
