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

/// Two ends of a connection between processes of one host that keeps records
/// apart (unix(7), SOCK_SEQPACKET). Errors: unavailable, with the system's
/// reason.
result<std::pair<file_descriptor, file_descriptor>> make_connection();

/// Whether something can be read there before then.
bool wait_for(const file_descriptor& x, timestamp until);

/// Sends a record and copies of open files with it; false when nobody is at
/// the other end, or whoever is leaves unread what came before until then.
bool send_record(const file_descriptor& to, const_bytes record,
                 std::span<const int> files = {}, timestamp until = far_future);

enum class received : uint8_t {
  record,
  nothing, ///< until the time given
  ended    ///< the other end is closed, or sent what no record is
};

/// Waits for a record of exactly so many bytes. Files that come with it are
/// kept where there is room for them and closed elsewhere.
received receive_record(const file_descriptor& from, std::span<std::byte> into,
                        timestamp until,
                        std::vector<file_descriptor>* files = nullptr);

/// A record is a struct's bytes: both ends are of one build.
template <class T>
concept record = std::is_trivially_copyable_v<T>;

template <record T>
bool send_record(const file_descriptor& to, const T& x,
                 std::span<const int> files = {},
                 timestamp until = far_future) {
  return send_record(to, std::as_bytes(std::span{&x, 1}), files, until);
}

template <record T>
received receive_record(const file_descriptor& from, T& into,
                        timestamp until = far_future,
                        std::vector<file_descriptor>* files = nullptr) {
  return receive_record(from, std::as_writable_bytes(std::span{&into, 1}),
                        until, files);
}

} // namespace millrace
