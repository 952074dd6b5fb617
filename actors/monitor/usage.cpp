// SPDX-License-Identifier: Apache-2.0
#include "actors/monitor/usage.hpp"

#include <algorithm>
#include <cmath>

namespace millrace {

namespace {

double per_second(uint64_t before, uint64_t after, nanoseconds apart) {
  auto n = after >= before ? after - before : after;
  return apart > 0ns ? static_cast<double>(n) / to_seconds(apart) : 0;
}

/// Busy time per time; 2 when two lanes were always busy.
double busy_part(microseconds before, microseconds after, nanoseconds apart) {
  auto busy = after >= before ? after - before : after;
  return apart > 0ns ? to_seconds(busy) / to_seconds(apart) : 0;
}

/// Moments of the values between two counts.
moments since(const moments& before, const moments& after) {
  if (after.count < before.count)
    return after;
  return {after.count - before.count, after.sum - before.sum,
          after.squares - before.squares};
}

double mean_of(const moments& x) {
  return x.count > 0 ? x.sum / static_cast<double>(x.count) : 0;
}

/// Coefficient of variation; 0 for fewer than two values.
double cv_of(const moments& x) {
  auto mean = mean_of(x);
  if (x.count < 2 || mean <= 0)
    return 0;
  auto variance = x.squares / static_cast<double>(x.count) - mean * mean;
  return std::sqrt(std::max(0.0, variance)) / mean;
}

} // namespace

device_usage usage_between(const device_load& before, const device_load& after,
                           nanoseconds apart) {
  device_usage out;
  out.device = after.device;
  // A batch counts when it ends, with its whole time, so the busy part can
  // exceed 1.
  auto lanes = static_cast<double>(std::max(1u, after.lanes));
  auto busy = busy_part(before.busy, after.busy, apart);
  if (after.batches == before.batches) // a long batch is not idle time
    busy = static_cast<double>(std::min(before.running, after.running));
  out.busy = std::min(1.0, busy / lanes);
  out.batches_per_second = per_second(before.batches, after.batches, apart);
  out.running = after.running;
  out.waiting = after.waiting;
  out.memory = after.memory;
  out.overdue = after.overdue;
  return out;
}

replica_usage usage_between(const replica_load& before,
                            const replica_load& after, nanoseconds apart) {
  replica_usage out;
  out.replica = after.replica;
  out.busy = busy_part(before.busy, after.busy, apart);
  out.requests_per_second = per_second(before.requests, after.requests, apart);
  auto batches = per_second(before.batches, after.batches, apart);
  out.batch = batches > 0 ? out.requests_per_second / batches : 0;
  out.running = after.running;
  auto gaps = since(before.gaps, after.gaps);
  auto waits = since(before.waits, after.waits);
  auto runs = since(before.runs, after.runs);
  out.arrivals = per_second(0, gaps.count, apart);
  out.arrival_cv = cv_of(gaps);
  out.waited = mean_of(waits);
  out.queue = apart > 0ns ? waits.sum / to_seconds(apart) : 0; // Little's law
  out.served = mean_of(runs);
  out.service_cv = cv_of(runs);
  out.sent = mean_of(since(before.sends, after.sends));
  return out;
}

void add_gpu_usage(device_usage& out, const gpu_reading& reading) {
  out.gpu_busy = reading.busy;
  out.gpu_memory = reading.memory_used.value;
  out.gpu_clock = reading.clock;
  out.gpu_watts = reading.watts;
}

void add_host_usage(node_load& out, const host_reading& before,
                    const host_reading& after, nanoseconds apart) {
  auto total = after.total_seconds - before.total_seconds;
  if (total > 0)
    out.host_busy = (after.busy_seconds - before.busy_seconds) / total;
  if (apart > 0ns)
    out.process_cpus =
      (after.process_seconds - before.process_seconds) / to_seconds(apart);
  out.resident = after.resident;
  out.available = after.available;
  out.copied = after.copied;
}

} // namespace millrace
