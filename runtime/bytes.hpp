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

/// A read-only run of bytes with a share in whatever keeps it alive: a received
/// frame, a mapped file, a tensor's storage. Copying one copies no bytes.
class shared_bytes {
public:
  shared_bytes() = default;
  shared_bytes(const_bytes view, std::shared_ptr<const void> owner)
    : view_(view),
      owner_(std::move(owner)) {}

  /// Takes a copy; for small things and tests.
  static shared_bytes copy_of(const_bytes x);
  static shared_bytes copy_of(std::string_view x) {
    return copy_of(std::as_bytes(std::span{x}));
  }

  const std::byte* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  const_bytes view() const { return view_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(view_.data()), view_.size()};
  }

  /// The part [offset, offset + n); it must lie inside.
  shared_bytes slice(size_t offset, size_t n) const;

  friend bool operator==(const shared_bytes& x, const shared_bytes& y) {
    return x.size() == y.size()
           && (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0);
  }

private:
  const_bytes view_;
  std::shared_ptr<const void> owner_;
};

/// How many bytes they are, all together.
inline size_t total_bytes(std::span<const shared_bytes> xs) {
  size_t n = 0;
  for (auto& x : xs)
    n += x.size();
  return n;
}

/// Writable bytes, 64-byte aligned, that become shared ones when filled.
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

/// A file that is open to be read, and what it holds.
struct mapped_file {
  file_descriptor file;
  shared_bytes content;
};

/// Opens a regular file and maps all of it read-only and shared, so that its
/// users on a host have one physical copy. An empty file gives empty bytes.
/// Errors: unavailable, with the path and the system's reason.
result<mapped_file> map_file(const std::string& path);

/// Opens, to be read, a file that a stranger named: a path relative to a
/// directory that leads nowhere else, whatever links there are (openat2(2),
/// RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS). Errors: as map_file.
result<file_descriptor> open_file_beneath(const std::string& directory,
                                          const std::string& path);

/// Maps an open file as map_file does; `path` is how errors name it.
result<mapped_file> map_open_file(file_descriptor file,
                                  const std::string& path);

/// An open file without a name that holds these bytes, one after the other, and
/// that nobody can change any more (memfd_create(2), file seals).
/// Errors: unavailable, with the system's reason.
result<file_descriptor> seal_in_memory(std::span<const const_bytes> parts);

/// Reads a file of at most max bytes.
/// Errors: unavailable as above; too_large.
result<std::string> read_file(const std::string& path, size_t max);

/// As above, of a file in a directory that others may have written: found as
/// open_file_beneath does, and nothing but a regular file.
result<std::string> read_file_beneath(const std::string& directory,
                                      const std::string& path, size_t max);

/// Replaces a file so that a crash leaves the old one or the new one whole:
/// writes beside it, syncs, renames, syncs the directory.
/// Errors: unavailable, with the path and the system's reason.
result<void> write_file(const std::string& path, const_bytes content);

} // namespace millrace
