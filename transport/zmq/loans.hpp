// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

namespace millrace::zeromq {

/// Bytes lent to ZeroMQ for one connection that it has not sent yet, and those
/// lent to all; given back on its own thread.
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

/// How many bytes may be lent.
struct loan_limits {
  size_t each = 64u << 20; ///< for one connection
  size_t all = 512u << 20; ///< for all of them
};

/// The accounts of a socket's connections: what receivers that do not read make
/// us hold. For the socket's thread.
class loan_book {
public:
  /// The account of a connection, or null when so many bytes more would be over
  /// a limit. A connection that has read all before gets one message, however
  /// large, while all together are within theirs.
  loan_account open(const std::string& connection, size_t bytes,
                    const loan_limits& limits) {
    forget_settled();
    if (*all_ >= limits.all)
      return nullptr;
    auto& out = accounts_[connection];
    if (!out)
      out = std::make_shared<loan_tally>(all_);
    auto held = out->held();
    return held == 0 || held + bytes <= limits.each ? out : nullptr;
  }

  size_t size() const { return accounts_.size(); }

private:
  void forget_settled() {
    if (accounts_.size() < forget_at_)
      return;
    std::erase_if(accounts_, [](auto& x) { return x.second->held() == 0; });
    forget_at_ = std::max<size_t>(64, 2 * accounts_.size());
  }

  std::shared_ptr<std::atomic<size_t>> all_ =
    std::make_shared<std::atomic<size_t>>(0);
  std::unordered_map<std::string, loan_account> accounts_;
  size_t forget_at_ = 64;
};

} // namespace millrace::zeromq
