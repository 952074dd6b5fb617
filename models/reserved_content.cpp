// SPDX-License-Identifier: Apache-2.0
#include "models/reserved_content.hpp"

#include <cstring>

#include "runtime/system_error.hpp"
#include <sys/mman.h>

namespace millrace {

result<shared_bytes> reserve_content(std::string_view head, uint64_t bytes) {
  MILLRACE_ASSERT(head.size() <= bytes);
  if (bytes == 0)
    return shared_bytes{};
  auto* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return error{
      ec::overloaded,
      system_error("a simulated model", "reserve address space for it").text,
      {}};
  std::memcpy(at, head.data(), head.size());
  ::mprotect(at, bytes, PROT_READ); // a write there is a defect of the program
  std::shared_ptr<const void> owner{
    at, [bytes](const void* x) { ::munmap(const_cast<void*>(x), bytes); }};
  return shared_bytes{{static_cast<const std::byte*>(at), bytes}, owner};
}

} // namespace millrace
