// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tests/support/parts.hpp"

namespace millrace::test {

/// Sends requests with exponential gaps, to each gateway in turn.
class random_sender {
public:
  random_sender(virtual_cluster& c, double rate, size_t gateways)
    : c_(c),
      rate_(rate),
      gateways_(gateways) {}

  void run(microseconds length) {
    for (auto end = c_.now() + length; c_.now() < end; ++next_) {
      auto gateway = next_ % gateways_ == 0 ? "front" : "front2";
      c_.node(gateway).bus()->client_sends({0, "client"}, next_,
                                           marked(c_, next_), 100s);
      sent[next_] = c_.now();
      c_.advance(
        std::chrono::duration_cast<microseconds>(std::chrono::duration<double>(
          -std::log(1 - random_.uniform()) / rate_)));
    }
  }

  std::map<uint64_t, timestamp> sent; ///< time of sending by request id

private:
  virtual_cluster& c_;
  double rate_;
  size_t gateways_;
  uint64_t next_ = 1;
  random_stream random_{7};
};

inline double median(std::vector<double> xs) {
  std::sort(xs.begin(), xs.end());
  return xs.at(xs.size() / 2);
}

} // namespace millrace::test
