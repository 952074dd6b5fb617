// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/bytes.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Creates a connection between processes of one host that preserves record
/// boundaries (unix(7), SOCK_SEQPACKET); returns both ends. Errors:
/// unavailable, with the system's reason.
result<std::pair<file_descriptor, file_descriptor>> make_connection();

/// Waits until the descriptor is readable; false at time `until`.
bool wait_for(const file_descriptor& file, timestamp until);

/// Sends a record, with duplicates of open files. Returns false when the other
/// end is closed, or when it has not read earlier records by `until`.
bool send_record(const file_descriptor& to, const_bytes record,
                 std::span<const int> files = {}, timestamp until = far_future);

enum class received : uint8_t {
  record,
  nothing, ///< no record arrived in time
  ended    ///< the other end is closed or sent an invalid record
};

/// Waits for a record of exactly the size of `into`. Received files go to
/// `files`; without `files` they are closed.
received receive_record(const file_descriptor& from, std::span<std::byte> into,
                        timestamp until,
                        std::vector<file_descriptor>* files = nullptr);

/// A record is sent as the bytes of a struct: both ends run the same build.
template <class T>
concept record = std::is_trivially_copyable_v<T>;

template <record T>
bool send_record(const file_descriptor& to, const T& content,
                 std::span<const int> files = {},
                 timestamp until = far_future) {
  return send_record(to, std::as_bytes(std::span{&content, 1}), files, until);
}

template <record T>
received receive_record(const file_descriptor& from, T& into,
                        timestamp until = far_future,
                        std::vector<file_descriptor>* files = nullptr) {
  return receive_record(from, std::as_writable_bytes(std::span{&into, 1}),
                        until, files);
}

} // namespace millrace
