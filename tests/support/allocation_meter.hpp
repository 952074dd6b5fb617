// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace millrace::test {

/// Measures how much memory this thread holds at most while the meter lives:
/// what operator new gave or, under AddressSanitizer, any allocation. One at a
/// time.
class allocation_meter {
public:
  allocation_meter();
  ~allocation_meter();

  /// Bytes held at most since the meter was made, beyond what was held then.
  size_t peak() const;
  /// Bytes held now beyond what was held then.
  size_t held() const;
};

/// Has the n-th allocation of this thread by operator new fail, from 1, while
/// this lives. Under AddressSanitizer, which owns the allocator, none does.
class failing_allocation {
public:
  static const bool possible;

  explicit failing_allocation(size_t n);
  ~failing_allocation();

  bool happened() const;
};

} // namespace millrace::test
