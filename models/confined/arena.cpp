// SPDX-License-Identifier: Apache-2.0
#include "models/confined/arena.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>

#include "runtime/copies.hpp"
#include "runtime/sizes.hpp"

namespace millrace::confined {

/// Describes one tensor; the entries lie at the arena's beginning.
struct arena::entry {
  int64_t extents[shape::max_rank];
  uint64_t offset;
  uint64_t bytes;
  int32_t type;
  int32_t rank;
};

namespace {

constexpr size_t alignment = 64;

constexpr size_t aligned(size_t n) {
  return rounded_up(n, alignment);
}

error system_error(const char* doing) {
  return {ec::unavailable,
          std::string{doing} + " memory to share: " + std::strerror(errno)};
}

} // namespace

result<arena> arena::make(size_t bytes) {
  file_descriptor file{
    ::memfd_create("millrace-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0
      || ::fcntl(file.get(), F_ADD_SEALS,
                 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
           != 0)
    return system_error("cannot make");
  return adopt(std::move(file), bytes);
}

result<arena> arena::adopt(file_descriptor file, size_t bytes) {
  auto* p =
    ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (p == MAP_FAILED)
    return system_error("cannot map");
  auto owner = std::shared_ptr<const void>(
    p, [bytes](const void* x) { ::munmap(const_cast<void*>(x), bytes); });
  arena out;
  out.file_ = std::move(file);
  out.memory_ = {{static_cast<const std::byte*>(p), bytes}, std::move(owner)};
  return out;
}

size_t arena::bytes_for(std::span<const tensor> xs) {
  auto n = aligned(most_tensors * sizeof(entry));
  for (auto& x : xs)
    n += aligned(x.data.size());
  return n;
}

shared_bytes arena::behind(size_t bytes) const {
  auto at = std::min(bytes, size());
  return memory_.slice(at, size() - at);
}

/// The offset of a tensor that can stay in place: it lies completely before
/// `end`, and overlaps none of `taken`, so the total fits the arena.
std::optional<size_t> arena::place_of(const tensor& values, size_t end,
                                      std::span<const entry> taken) const {
  auto offset = static_cast<size_t>(values.data.data() - memory_.data());
  auto bytes = values.data.size();
  if (values.data.data() < memory_.data() || offset < bytes_for({})
      || offset > end || bytes > end - offset || offset % alignment != 0)
    return std::nullopt;
  for (auto& y : taken)
    if (offset < y.offset + y.bytes && y.offset < offset + bytes)
      return std::nullopt;
  return offset;
}

std::optional<size_t> arena::put(std::span<const tensor> xs, size_t behind) {
  if (xs.size() > most_tensors)
    return std::nullopt;
  entry entries[most_tensors];
  auto end = behind;
  for (size_t i = 0; i < xs.size(); ++i) {
    auto& x = xs[i];
    auto there = place_of(x, behind, {entries, i});
    entries[i] = {{},
                  there.value_or(end),
                  x.data.size(),
                  static_cast<int32_t>(x.type),
                  static_cast<int32_t>(x.extents.rank())};
    std::copy(x.extents.begin(), x.extents.end(), entries[i].extents);
    if (!there)
      end += aligned(x.data.size());
  }
  if (end > size())
    return std::nullopt;
  auto* to = const_cast<std::byte*>(memory_.data());
  size_t copied = 0;
  for (size_t i = 0; i < xs.size(); ++i)
    if (entries[i].offset >= behind) {
      copy_counted(to + entries[i].offset, xs[i].data.view());
      copied += xs[i].data.size();
    }
  std::memcpy(to, entries, xs.size() * sizeof(entry));
  return copied;
}

/// The tensor that an entry describes, if the entry is valid.
result<tensor> arena::check(const entry& described) const {
  auto refuse = [](const char* why) {
    return error{ec::internal,
                 std::string{"a confined process gave a tensor "} + why};
  };
  if (described.type < 0 || described.type > static_cast<int32_t>(dtype::f64))
    return refuse("of no known type");
  if (described.rank < 0
      || described.rank > static_cast<int32_t>(shape::max_rank))
    return refuse("of no possible rank");
  if (described.offset > size() || described.bytes > size() - described.offset
      || described.offset % alignment != 0)
    return refuse("that lies elsewhere");
  return tensor::make(
    static_cast<dtype>(described.type),
    *shape::of({described.extents, static_cast<size_t>(described.rank)}),
    memory_.slice(described.offset, described.bytes));
}

template <class F>
result<tensor_list> arena::each(size_t count, F take) const {
  if (count > most_tensors)
    return error{ec::internal, "a confined process gave "
                                 + std::to_string(count) + " tensors"};
  if (count * sizeof(entry) > size())
    return error{ec::internal, "a confined process gave tensors nowhere"};
  if (count == 0)
    return tensor_list{};
  entry entries[most_tensors];
  std::memcpy(entries, memory_.data(), count * sizeof(entry));
  tensor_list out;
  size_t bytes = 0; // copies of overlapping tensors could exceed the arena
  for (size_t i = 0; i < count; ++i) {
    auto x = check(entries[i]);
    if (!x)
      return error{ec::internal, std::move(x.failure().text)};
    bytes += x->data.size();
    if (bytes > size())
      return error{ec::internal,
                   "a confined process gave tensors that overlap"};
    take(*x);
    out.push_back(std::move(*x));
  }
  return out;
}

result<tensor_list> arena::view(size_t count) const {
  return each(count, [](tensor&) {});
}

result<tensor_list> arena::copy(size_t count) const {
  return each(count, [](tensor& x) {
    byte_buffer bytes{x.data.size()};
    copy_counted(bytes.data(), x.data.view());
    x.data = std::move(bytes).freeze();
  });
}

} // namespace millrace::confined
