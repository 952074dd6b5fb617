// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/error.hpp"
#include "runtime/file_descriptor.hpp"

namespace millrace {

using const_bytes = std::span<const std::byte>;

/// A read-only byte range that shares ownership of its memory: a received
/// frame, a mapped file, or a tensor's storage. Copying the object copies no
/// bytes.
class shared_bytes {
public:
  shared_bytes() = default;
  shared_bytes(const_bytes view, std::shared_ptr<const void> owner)
    : view_(view),
      owner_(std::move(owner)) {}

  /// Copies the bytes; for small values and tests.
  static shared_bytes copy_of(const_bytes bytes);
  static shared_bytes copy_of(std::string_view text) {
    return copy_of(std::as_bytes(std::span{text}));
  }

  const std::byte* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  const_bytes view() const { return view_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(view_.data()), view_.size()};
  }

  /// The subrange [offset, offset + n), which must lie inside the range.
  shared_bytes slice(size_t offset, size_t n) const;

  friend bool operator==(const shared_bytes& left, const shared_bytes& right) {
    return left.size() == right.size()
           && (left.empty()
               || std::memcmp(left.data(), right.data(), left.size()) == 0);
  }

private:
  const_bytes view_;
  std::shared_ptr<const void> owner_;
};

/// The sum of all sizes.
inline size_t total_bytes(std::span<const shared_bytes> xs) {
  size_t n = 0;
  for (auto& x : xs)
    n += x.size();
  return n;
}

/// A writable buffer, aligned to 64 bytes; freeze() makes it shared and
/// read-only.
class byte_buffer {
public:
  explicit byte_buffer(size_t n);
  std::byte* data() { return data_.get(); }
  size_t size() const { return size_; }
  shared_bytes freeze() &&;

private:
  std::shared_ptr<std::byte> data_;
  size_t size_;
};

/// A file open for reading, and its mapped content.
struct mapped_file {
  file_descriptor file;
  shared_bytes content;
};

/// Opens a regular file and maps the whole file read-only and shared, so that
/// all processes of a host use one physical copy. An empty file gives empty
/// bytes.
/// Errors: unavailable, with the path and the system's reason.
result<mapped_file> map_file(const std::string& path);

/// Opens a file for reading by an untrusted path, relative to a directory. The
/// path cannot leave the directory, and symbolic links are refused (openat2(2),
/// RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS).
/// Errors: as map_file.
result<file_descriptor> open_file_beneath(const std::string& directory,
                                          const std::string& path);

/// Maps an open file as map_file does; errors name the file by `path`.
result<mapped_file> map_open_file(file_descriptor file,
                                  const std::string& path);

/// Creates a file in memory that holds these parts in order and is sealed
/// against changes (memfd_create(2), file seals).
/// Errors: unavailable, with the system's reason.
result<file_descriptor> seal_in_memory(std::span<const const_bytes> parts);

/// Reads a file of at most `max` bytes.
/// Errors: unavailable as above; too_large.
result<std::string> read_file(const std::string& path, size_t max);

/// Reads a regular file in a directory with untrusted content. The path is
/// resolved as in open_file_beneath.
result<std::string> read_file_beneath(const std::string& directory,
                                      const std::string& path, size_t max);

/// Replaces a file atomically: after a crash the file is the old or the new
/// one, never a mix. Writes a temporary file, syncs it, renames it, and syncs
/// the directory.
/// Errors: unavailable, with the path and the system's reason.
result<void> write_file(const std::string& path, const_bytes content);

} // namespace millrace
