// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>

#include <doctest/doctest.h>

#include "client/client.hpp"
#include "runtime/units.hpp"
#include "tests/support/builders.hpp"

namespace millrace::test {

/// Keeps a window of requests open to a model that echoes its input. Sends
/// requests alternately in separate and in shared frames. Each request carries
/// a unique number, and each answer is compared with its request.
class canary_load {
public:
  canary_load(client gateway, std::string model, size_t window)
    : gateway_(std::move(gateway)),
      model_(std::move(model)),
      window_(window) {}

  /// Sends requests for this time.
  void run(microseconds length) {
    auto until = steady_now() + length;
    while (steady_now() < until) {
      fill();
      for (auto x = gateway_.receive(10ms); x; x = gateway_.receive(0us))
        account(*x);
    }
  }

  /// Sends requests in a separate thread until stop().
  void start() {
    going_ = true;
    thread_ = std::thread{[this] {
      while (going_)
        run(10ms);
    }};
  }
  void stop() {
    going_ = false;
    thread_.join();
  }

  /// Waits for the answers to all open requests.
  void finish() {
    while (!open_.empty())
      if (auto x = gateway_.receive(10s))
        account(*x);
      else
        break;
  }

  size_t submitted = 0;
  size_t answered = 0;
  size_t foreign = 0;   ///< answers with the content of another request
  size_t surprises = 0; ///< answers to requests that are not open
  std::map<ec, size_t> statuses;
  std::map<ec, std::string> texts;
  std::atomic<size_t> good = 0;            ///< answers with status ok so far
  std::atomic<microseconds> longest_gap{}; ///< between two good answers
  std::atomic<microseconds> longest_wait{};

  /// Returns for each moment the longest wait for an answer, counted from that
  /// moment, over the requests that were open then or submitted within the next
  /// second. Call after all requests are answered.
  std::vector<microseconds>
  waits_from(const std::vector<timestamp>& moments) const {
    std::vector<microseconds> out;
    for (auto moment : moments) {
      microseconds most{0};
      for (auto& [from, to] : waits_)
        if (to > moment && from < moment + std::chrono::seconds{1})
          most = std::max(most, to_us(to - std::max(from, moment)));
      out.push_back(most);
    }
    return out;
  }

private:
  void fill() {
    std::optional<client::group> together;
    if (++fills_ % 2 == 0)
      together.emplace(gateway_);
    while (open_.size() < window_)
      submit();
  }

  void submit() {
    infer x;
    x.model = model_;
    auto canary = static_cast<float>(++submitted % (1 << 24));
    x.inputs.push_back({"", floats({1, 4}, canary)});
    auto id = gateway_.submit(x, 5s);
    open_.emplace(id, std::pair{canary, steady_now()});
  }

  void account(const client::answer& x) {
    auto i = open_.find(x.id);
    if (i == open_.end()) {
      ++surprises;
      return;
    }
    ++answered;
    ++statuses[x.reply.status];
    texts[x.reply.status] = x.reply.error;
    auto time = steady_now();
    if (time - i->second.second > worth_noting)
      waits_.emplace_back(i->second.second, time);
    raise(longest_wait, to_us(time - i->second.second));
    if (x.reply.status == ec::ok) {
      ++good;
      if (x.reply.outputs.size() != 1
          || values_of(x.reply.outputs[0].value)[0] != i->second.first)
        ++foreign;
      if (last_good_ != timestamp{})
        raise(longest_gap, to_us(time - last_good_));
      last_good_ = time;
    }
    open_.erase(i);
  }

  static void raise(std::atomic<microseconds>& most, microseconds x) {
    if (x > most.load())
      most = x;
  }

  static constexpr milliseconds worth_noting{5};

  client gateway_;
  std::string model_;
  size_t window_;
  size_t fills_ = 0;
  std::atomic<bool> going_{false};
  std::thread thread_;
  std::unordered_map<uint64_t, std::pair<float, timestamp>> open_;
  timestamp last_good_;
  std::vector<std::pair<timestamp, timestamp>> waits_; ///< above worth_noting
};

/// Prints the results and checks that enough requests were sent.
inline void report(const canary_load& load) {
  CHECK(load.submitted > 100); // fewer requests prove nothing
  for (auto& [status, n] : load.statuses)
    MESSAGE(to_string(status) << ": " << n << " " << load.texts.at(status));
  MESSAGE("longest gap " << format_duration(load.longest_gap.load())
                         << ", longest wait "
                         << format_duration(load.longest_wait.load()));
}

} // namespace millrace::test
