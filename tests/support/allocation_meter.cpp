// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocation_meter.hpp"

#include <algorithm>

namespace {

thread_local bool measuring = false;
thread_local long taken = 0;
thread_local long most = 0;
thread_local size_t to_failure = 0; ///< fails n-th allocation; 0: none

void count_taken(size_t n) {
  if (!measuring)
    return;
  taken += static_cast<long>(n);
  most = std::max(most, taken);
}

void count_given_back(size_t n) {
  if (measuring)
    taken -= static_cast<long>(n);
}

} // namespace

#ifdef MILLRACE_SANITIZED_ADDRESS

// Declared as in compiler-rt. GCC has these functions in its library but
// declares them in no header.
extern "C" int __sanitizer_install_malloc_and_free_hooks(
  void (*taken)(const volatile void*, size_t),
  void (*given_back)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void*);

namespace {

// AddressSanitizer owns the allocator and reports each call to these hooks.
[[maybe_unused]] const int hooked = __sanitizer_install_malloc_and_free_hooks(
  [](const volatile void*, size_t n) { count_taken(n); },
  [](const volatile void* x) {
    if (x != nullptr)
      count_given_back(__sanitizer_get_allocated_size(x));
  });

} // namespace

const bool millrace::test::failing_allocation::possible = false;

#else

const bool millrace::test::failing_allocation::possible = true;

#  include <malloc.h>

#  include <cstdlib>
#  include <new>

// ThreadSanitizer replaces the nothrow operator new and would bypass the
// throwing one. Both and operator delete are therefore defined here.
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  auto fails = to_failure > 0 && --to_failure == 0;
  auto* x = fails ? nullptr : std::malloc(n);
  if (x != nullptr)
    count_taken(malloc_usable_size(x));
  return x;
}

void* operator new(size_t n) {
  auto* x = operator new(n, std::nothrow);
  if (x == nullptr)
    throw std::bad_alloc{};
  return x;
}

void operator delete(void* x) noexcept {
  count_given_back(malloc_usable_size(x));
  std::free(x);
}

void operator delete(void* x, size_t) noexcept {
  operator delete(x);
}

#endif

namespace millrace::test {

allocation_meter::allocation_meter() {
  taken = 0;
  most = 0;
  measuring = true;
}

allocation_meter::~allocation_meter() {
  measuring = false;
}

size_t allocation_meter::peak() const {
  return static_cast<size_t>(most);
}

size_t allocation_meter::held() const {
  return static_cast<size_t>(taken);
}

failing_allocation::failing_allocation(size_t n) {
  to_failure = n;
}

failing_allocation::~failing_allocation() {
  to_failure = 0;
}

bool failing_allocation::happened() const {
  return to_failure == 0;
}

} // namespace millrace::test
