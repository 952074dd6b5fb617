// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocation_meter.hpp"

#include <algorithm>

namespace {

thread_local bool measuring = false;
thread_local long held = 0;
thread_local long most = 0;

void count_taken(size_t n) {
  if (!measuring)
    return;
  held += static_cast<long>(n);
  most = std::max(most, held);
}

void count_given_back(size_t n) {
  if (measuring)
    held -= static_cast<long>(n);
}

} // namespace

#ifndef __has_feature
#  define __has_feature(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)

// As compiler-rt declares them; GCC has them in its library, but no header.
extern "C" int __sanitizer_install_malloc_and_free_hooks(
  void (*taken)(const volatile void*, size_t),
  void (*given_back)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void*);

namespace {

// The sanitizer owns the allocator; it tells what it does.
[[maybe_unused]] const int hooked = __sanitizer_install_malloc_and_free_hooks(
  [](const volatile void*, size_t n) { count_taken(n); },
  [](const volatile void* x) {
    if (x != nullptr)
      count_given_back(__sanitizer_get_allocated_size(x));
  });

} // namespace

#else

#  include <malloc.h>

#  include <cstdlib>
#  include <new>

void* operator new(size_t n) {
  auto* x = std::malloc(n);
  if (x == nullptr)
    throw std::bad_alloc{};
  count_taken(malloc_usable_size(x));
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
  held = 0;
  most = 0;
  measuring = true;
}

allocation_meter::~allocation_meter() {
  measuring = false;
}

size_t allocation_meter::peak() const {
  return static_cast<size_t>(most);
}

} // namespace millrace::test
