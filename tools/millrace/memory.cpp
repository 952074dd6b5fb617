// SPDX-License-Identifier: Apache-2.0

/// \file
/// C++ allocation with mimalloc. Debian builds mimalloc as C, which cannot
/// throw, so that its own C++ operators abort without memory; these operators
/// throw std::bad_alloc.

#include <new>

#include <mimalloc.h>

/// Keeps free memory for 50 ms before mimalloc returns it to the system. The
/// default, 25 ms, is too short: chunks of 1 MiB of a model arrive every 20 ms,
/// and each would use memory that the system has to clear first.
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
