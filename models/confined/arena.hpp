// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "models/batching.hpp"

namespace millrace::confined {

/// Upper limit of the bytes of one execution's inputs or outputs.
inline constexpr size_t largest_arena = size_t{1} << 30;

/// Memory that a node and one lane of a confined process share, for the inputs
/// of an execution, then for its outputs. The peer may write into it at any
/// time, so each value is read once, and no size in it is trusted. The size of
/// the memory is sealed (memfd_create(2)), so no access to it can fail.
class arena {
public:
  arena() = default;

  /// Errors: unavailable, with the system's reason.
  static result<arena> make(size_t bytes);

  /// Maps memory that the peer made.
  /// Errors: as make.
  static result<arena> adopt(file_descriptor file, size_t bytes);

  /// Upper limit of the tensors in one arena.
  static constexpr size_t most_tensors = millrace::most_tensors;

  const file_descriptor& file() const { return file_; }
  size_t size() const { return memory_.size(); }

  /// Bytes that tensors take here.
  static size_t bytes_for(std::span<const tensor> xs);

  /// The memory after the first `bytes` bytes.
  shared_bytes behind(size_t bytes) const;

  /// Writes tensors after the first `behind` bytes, which are preserved.
  /// Tensors that already lie after those bytes stay in place. Returns the
  /// number of copied bytes; if the tensors do not fit, returns nothing and
  /// writes nothing.
  std::optional<size_t> put(std::span<const tensor> xs,
                            size_t behind = bytes_for({}));

  /// The tensors of the last put(): view() gives them in place, copy() copies
  /// them. A view shares the mapping, not the arena object: see arena_pool.hpp.
  /// Errors: internal when their description is invalid.
  result<tensor_list> view(size_t count) const;
  result<tensor_list> copy(size_t count) const;

private:
  struct entry;

  std::optional<size_t> place_of(const tensor& values, size_t end,
                                 std::span<const entry> taken) const;
  result<tensor> check(const entry& described) const;
  template <class F>
  result<tensor_list> each(size_t count, F take) const;

  file_descriptor file_;
  shared_bytes memory_;
};

} // namespace millrace::confined
