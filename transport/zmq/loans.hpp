// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

namespace millrace::zeromq {

/// Bytes lent to ZeroMQ for one connection that it has not sent yet; given back
/// on its own thread.
using loan_account = std::shared_ptr<std::atomic<size_t>>;

/// The accounts of a socket's connections: what a receiver that does not read
/// makes us hold. For the socket's thread.
class loan_book {
public:
  /// The account of a connection, or null when so many bytes more would be over
  /// the limit. One message is always lent, however large.
  loan_account open(const std::string& connection, size_t bytes, size_t limit) {
    forget_settled();
    auto& out = accounts_[connection];
    if (!out)
      out = std::make_shared<std::atomic<size_t>>(0);
    auto held = out->load();
    return held == 0 || held + bytes <= limit ? out : nullptr;
  }

  size_t size() const { return accounts_.size(); }

private:
  void forget_settled() {
    if (accounts_.size() < forget_at_)
      return;
    std::erase_if(accounts_, [](auto& x) { return x.second->load() == 0; });
    forget_at_ = std::max<size_t>(64, 2 * accounts_.size());
  }

  std::unordered_map<std::string, loan_account> accounts_;
  size_t forget_at_ = 64;
};

} // namespace millrace::zeromq
