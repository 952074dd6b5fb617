// SPDX-License-Identifier: Apache-2.0

/// \file
/// mimalloc for C++. Its own operators end the program where memory is short,
/// for Debian builds it as C, which cannot throw: these throw std::bad_alloc.

#include <new>

#include <mimalloc.h>

/// What is free goes back to the system after so many milliseconds, 25 by
/// default: then each MiB that comes for a model, 20 ms after the last, would
/// be in memory that the system has to clear first.
static const bool keeps_what_is_free =
  (mi_option_set(mi_option_decommit_delay, 50), true);

void* operator new(std::size_t n) {
  if (auto* x = mi_malloc(n))
    return x;
  throw std::bad_alloc{};
}

void* operator new(std::size_t n, std::align_val_t alignment) {
  if (auto* x = mi_malloc_aligned(n, static_cast<std::size_t>(alignment)))
    return x;
  throw std::bad_alloc{};
}

void* operator new[](std::size_t n) {
  return operator new(n);
}

void* operator new[](std::size_t n, std::align_val_t alignment) {
  return operator new(n, alignment);
}
