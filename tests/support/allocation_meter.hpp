// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace millrace::test {

/// Measures the peak of the memory that this thread holds while the meter
/// lives. Counts memory from operator new or, under AddressSanitizer, from any
/// allocator. At most one meter may live per thread.
class allocation_meter {
public:
  allocation_meter();
  ~allocation_meter();

  /// Peak of held() since the meter was made, in bytes.
  size_t peak() const;
  /// Bytes allocated and not freed since the meter was made.
  size_t held() const;
};

/// Makes the n-th allocation of this thread by operator new fail, counted from
/// 1, while this object lives. No allocation fails under AddressSanitizer,
/// which owns the allocator.
class failing_allocation {
public:
  static const bool possible;

  explicit failing_allocation(size_t n);
  ~failing_allocation();

  bool happened() const;
};

} // namespace millrace::test
