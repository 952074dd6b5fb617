// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "models/batching.hpp"

namespace millrace::confined {

/// What one execution takes and gives at most, in bytes.
inline constexpr size_t largest_arena = size_t{1} << 30;

/// Memory that a node and one lane of a confined process share: the inputs of
/// an execution go through it, then its outputs. The other side may write into
/// it at any time, so nothing in it is looked at twice, and no size in it is
/// believed. Its size cannot be changed (memfd_create(2), file seals), so no
/// access to it can fail.
class arena {
public:
  arena() = default;

  /// Errors: unavailable, with the system's reason.
  static result<arena> make(size_t bytes);

  /// What the other side made. Errors: as make.
  static result<arena> adopt(file_descriptor file, size_t bytes);

  /// That it takes at a time.
  static constexpr size_t most_tensors = millrace::most_tensors;

  const file_descriptor& file() const { return file_; }
  size_t size() const { return memory_.size(); }

  /// Bytes that tensors take here.
  static size_t bytes_for(std::span<const tensor> xs);

  /// What lies behind the first bytes, so many.
  shared_bytes behind(size_t bytes) const;

  /// Writes tensors behind the first bytes, so many, where something may lie
  /// that is to stay whole; of these tensors what lies there already stays
  /// there. Returns how many bytes were copied; nothing, and nothing is
  /// written, when they do not fit.
  std::optional<size_t> put(std::span<const tensor> xs,
                            size_t behind = bytes_for({}));

  /// The tensors that were put last: as they lie there, or copied out. These
  /// share the memory, not the arena: see arena_pool.hpp.
  /// Errors: internal when what is said of them cannot be.
  result<tensor_list> view(size_t count) const;
  result<tensor_list> copy(size_t count) const;

private:
  struct entry;

  std::optional<size_t> place_of(const tensor& x, size_t end,
                                 std::span<const entry> taken) const;
  result<tensor> check(const entry& x) const;
  template <class F>
  result<tensor_list> each(size_t count, F take) const;

  file_descriptor file_;
  shared_bytes memory_;
};

} // namespace millrace::confined
