// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "bench/floors.hpp"
#include "client/client.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// Drives the runtime like a floor, by repeating one request.
class runtime_echo : public echo_floor {
public:
  enum framing { grouped, single };

  runtime_echo(client& gateway, infer request, framing how = grouped)
    : gateway_(gateway),
      request_(std::move(request)),
      how_(how) {}

  nanoseconds round_trip() override;
  double throughput(size_t open, microseconds length) override;

  /// An error if any answer was not ok: the measurement is then invalid.
  result<void> verdict() const;

private:
  void fill(size_t open);
  bool count(const std::optional<client::answer>& answered);

  client& gateway_;
  infer request_;
  framing how_;
  size_t failed_ = 0;
  infer_reply first_failure_;
};

/// Median and 99th percentile of round trips, in microseconds.
std::pair<double, double> latency(const std::function<nanoseconds()>& once,
                                  microseconds length);

/// A request with this number of rows, all zero.
infer request_of(const std::string& model, const signature& takes,
                 int64_t rows = 1);

/// As request_of, for a model of a gateway. Errors: unavailable; unknown_model.
result<infer> request_for(const std::string& model, client& gateway,
                          int64_t rows = 1);

} // namespace millrace
