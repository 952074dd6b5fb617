// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace millrace::zeromq {

/// Bytes lent to ZeroMQ and not sent yet, for one connection and in total.
/// ZeroMQ's own thread returns them.
class loan_tally {
public:
  explicit loan_tally(std::shared_ptr<std::atomic<size_t>> all)
    : all_(std::move(all)) {}

  void operator+=(size_t n) {
    held_ += n;
    *all_ += n;
  }
  void operator-=(size_t n) {
    held_ -= n;
    *all_ -= n;
  }
  size_t held() const { return held_.load(); }

private:
  std::atomic<size_t> held_{0};
  std::shared_ptr<std::atomic<size_t>> all_;
};

using loan_account = std::shared_ptr<loan_tally>;

/// How a message's first lent frame is accounted.
struct loan_terms {
  loan_account account; ///< null: nothing is counted
  size_t copied = 0;    ///< bytes copied for the connection before
};

/// Limits of lent bytes.
struct loan_limits {
  size_t each = 64u << 20; ///< for one connection
  size_t all = 512u << 20; ///< for all connections
};

/// The accounts of a socket's connections: the memory that slow receivers hold.
/// For the socket's thread. The release of bytes that were copied into ZeroMQ's
/// memory is not reported. Frames are sent in order, so copied bytes are
/// charged to the next lent frame, and from time to time a frame is lent.
class loan_book {
public:
  /// Several books may share one total.
  explicit loan_book(std::shared_ptr<std::atomic<size_t>> all =
                       std::make_shared<std::atomic<size_t>>(0))
    : all_(std::move(all)) {}

  /// Whether this many bytes may be copied instead of lent.
  bool may_copy(const std::string& connection, size_t bytes) {
    forget_settled();
    auto& copied = accounts_[connection].copied;
    if (copied + bytes > most_copied)
      return false;
    copied += bytes;
    return true;
  }

  /// The terms for lending more bytes to a connection; no account if a limit
  /// would be exceeded. A connection without unread bytes may get one message
  /// of any size while the total is within its limit.
  loan_terms open(const std::string& connection, size_t bytes,
                  const loan_limits& limits) {
    forget_settled();
    if (*all_ >= limits.all)
      return {};
    auto& out = accounts_[connection];
    if (!out.account)
      out.account = std::make_shared<loan_tally>(all_);
    auto held = out.account->held();
    if (held > 0 && held + bytes > limits.each)
      return {};
    return {out.account, std::exchange(out.copied, 0)};
  }

  /// Whether open() would return an account, without changing the book.
  bool has_room(const std::string& connection, size_t bytes,
                const loan_limits& limits) const {
    if (*all_ >= limits.all)
      return false;
    auto i = accounts_.find(connection);
    auto held = i == accounts_.end() || !i->second.account
                  ? 0
                  : i->second.account->held();
    return held == 0 || held + bytes <= limits.each;
  }

  size_t size() const { return accounts_.size(); }

private:
  /// Bytes copied per connection before a frame must be lent.
  static constexpr size_t most_copied = 16u << 10;

  void forget_settled() {
    if (accounts_.size() < forget_at_)
      return;
    std::erase_if(accounts_, [](auto& x) {
      auto& account = x.second.account;
      return !account || account->held() == 0;
    });
    forget_at_ = std::max<size_t>(64, 2 * accounts_.size());
  }

  std::shared_ptr<std::atomic<size_t>> all_;
  std::unordered_map<std::string, loan_terms> accounts_;
  size_t forget_at_ = 64;
};

} // namespace millrace::zeromq
