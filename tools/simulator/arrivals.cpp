// SPDX-License-Identifier: Apache-2.0
#include "simulator/arrivals.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "runtime/units.hpp"
#include "simulator/arrival_files.hpp"
#include "simulator/rate_shape.hpp"

namespace millrace {

namespace {

/// Limit for the number of level changes of a process of kind `bursts`.
constexpr double most_bursts = 1e7;

/// How often draw_exactly draws, at rising rates, to get enough requests.
constexpr int most_attempts = 30;

/// Operational seconds (see rate_shape), sorted.
using points = std::vector<double>;

/// Draws points until `end`, one gap after the other.
points by_gaps(double end, const std::function<double()>& gap) {
  points out;
  for (auto at = gap(); at < end && out.size() < max_arrivals; at += gap())
    out.push_back(at);
  return out;
}

/// Points of a gamma process in its stationary state: the first gap is drawn
/// with a probability in proportion to its length, and has partly passed.
points gamma_points(double cv, double rate, double end, random_stream& random) {
  auto shape = 1 / (cv * cv);
  auto first = random.uniform() * random.gamma(shape + 1) / shape / rate;
  return by_gaps(end, [&] {
    return first >= 0 ? std::exchange(first, -1)
                      : random.gamma(shape) / shape / rate;
  });
}

/// A Poisson process that alternates between rates `low` and `high`; the times
/// at each level are exponential.
points two_levels(const workload_part& x, double low, double high, double end,
                  random_stream& random) {
  auto in_burst = to_seconds(x.burst_length);
  auto between = in_burst * (1 - x.burst_part) / x.burst_part;
  auto bursting = random.uniform() < x.burst_part;
  points out;
  for (double from = 0; from < end; bursting = !bursting) {
    auto until = from + random.exponential() * (bursting ? in_burst : between);
    auto level = bursting ? high : low;
    // Poisson processes are memoryless: the new level starts a new process.
    auto at = level > 0 ? from + random.exponential() / level : end;
    for (; at < std::min(until, end) && out.size() < max_arrivals;
         at += random.exponential() / level)
      out.push_back(at);
    from = until;
  }
  return out;
}

points bursts(const workload_part& x, double rate, double end,
              random_stream& random) {
  // The two rates are chosen so that the mean over both levels is `rate`.
  auto low = rate / (1 + x.burst_part * (x.burst - 1));
  return two_levels(x, low, low * x.burst, end, random);
}

/// Cumulative shares of the functions in the rate.
std::vector<double> shares_of_functions(const workload_part& x) {
  std::vector<double> out(x.functions);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = std::pow(static_cast<double>(i + 1), -x.tail);
  std::partial_sum(out.begin(), out.end(), out.begin());
  return out;
}

/// Draws a separate process for each function.
points separate_functions(const workload_part& x, double rate, double end,
                          const random_stream& random,
                          std::vector<uint32_t>* function) {
  auto shares = shares_of_functions(x);
  std::vector<std::pair<double, uint32_t>> all;
  for (size_t i = 0; i < shares.size(); ++i) {
    auto share = (shares[i] - (i > 0 ? shares[i - 1] : 0)) / shares.back();
    auto own = random.fork("function " + std::to_string(i));
    auto its = x.each == function_process::gamma
                 ? gamma_points(x.cv, rate * share, end, own)
                 : two_levels(x, 0, rate * share / x.burst_part, end, own);
    for (auto at : its)
      all.emplace_back(at, static_cast<uint32_t>(i));
  }
  std::sort(all.begin(), all.end());
  points out;
  for (auto& [at, i] : all) {
    out.push_back(at);
    if (function != nullptr)
      function->push_back(i);
  }
  return out;
}

points functions(const workload_part& x, double rate, double end,
                 random_stream& random, std::vector<uint32_t>* function) {
  if (x.each != function_process::poisson)
    return separate_functions(x, rate, end, random, function);
  auto shares = shares_of_functions(x);
  // The sum of Poisson processes is one Poisson process, each point of which
  // belongs to a random one of the summed processes.
  auto out = by_gaps(end, [&] { return random.exponential() / rate; });
  if (function == nullptr)
    return out;
  for (size_t i = 0; i < out.size(); ++i) {
    auto at = random.uniform() * shares.back();
    auto found = std::upper_bound(shares.begin(), shares.end(), at);
    function->push_back(static_cast<uint32_t>(found - shares.begin()));
  }
  return out;
}

/// Draws exactly `requests` points of a process with independent gaps, and
/// stretches the gaps to fill the time. With exponential gaps the result is a
/// Poisson process conditioned on its number of points.
points exactly(uint64_t requests, double end, bool even,
               const std::function<double()>& gap) {
  points out;
  double at = 0;
  for (uint64_t i = 0; i < requests; ++i) {
    at += even && i == 0 ? gap() / 2 : gap();
    out.push_back(at);
  }
  auto whole = at + (even ? gap() / 2 : gap());
  for (auto& point : out)
    point *= end / whole;
  return out;
}

/// Points of any process, except single arrivals read from a file.
points draw_points(const workload_part& x, double rate, double end,
                   random_stream& random, std::vector<uint32_t>* function) {
  auto shape = 1 / (x.cv * x.cv);
  auto exact = x.requests > 0;
  switch (x.arrivals) {
  case arrival_process::constant: {
    auto gap = [&] { return 1 / rate; };
    return exact ? exactly(x.requests, end, true, gap) : by_gaps(end, gap);
  }
  case arrival_process::gamma:
    return exact ? exactly(x.requests, end, false,
                           [&] { return random.gamma(shape); })
                 : gamma_points(x.cv, rate, end, random);
  case arrival_process::refit:
    return gamma_points(x.cv, rate, end, random);
  case arrival_process::bursts:
    return bursts(x, rate, end, random);
  case arrival_process::functions:
    return functions(x, rate, end, random, function);
  default: {
    auto gap = [&] { return random.exponential() / rate; };
    return exact && x.arrivals == arrival_process::poisson
             ? exactly(x.requests, end, false, gap)
             : by_gaps(end, gap);
  }
  }
}

/// Thins a Poisson process of the highest rate to a process with a changing
/// rate (Lewis and Shedler, 1979).
void thin_to_ramp(points& all, double rate, double to_rate, double end,
                  random_stream& random) {
  auto most = std::max(rate, to_rate);
  std::erase_if(all, [&](double at) {
    return random.uniform() * most >= rate + (to_rate - rate) * at / end;
  });
}

result<void> check(const workload_part& x, double area, double most) {
  if (!is_from_file(x.arrivals)
      && most * area > static_cast<double>(max_arrivals))
    return too_many_arrivals();
  auto separate = x.arrivals == arrival_process::functions
                  && x.each == function_process::on_off;
  auto processes = separate ? static_cast<double>(x.functions) : 1.0;
  if ((separate || x.arrivals == arrival_process::bursts)
      && processes * area * x.burst_part / to_seconds(x.burst_length)
           > most_bursts)
    return error{ec::bad_request,
                 "burst_length: there would be more than ten million bursts",
                 {}};
  return {};
}

/// Arrivals at the part's rate, or from the part's file, without `requests`.
result<arrival_times> draw(const workload_part& x, microseconds length,
                           random_stream& random,
                           std::vector<uint32_t>* function) {
  if (x.arrivals == arrival_process::rates)
    return by_rates(x, length, random);
  if (x.arrivals == arrival_process::times)
    return by_times(x, random);
  auto end = to_seconds(length);
  auto rate = x.rate * x.scale;
  std::vector<double> per_second;
  if (x.arrivals == arrival_process::refit) {
    auto rates = rates_of_file(x);
    if (!rates)
      return rates.failure();
    per_second = std::move(*rates);
    rate = 1;
  }
  rate_shape shape{x, end, per_second};
  auto to_rate = x.to_rate * x.scale;
  auto ramp = x.arrivals == arrival_process::ramp;
  auto most = ramp ? std::max(rate, to_rate) : rate;
  if (auto fine = check(x, shape.area(), most); !fine)
    return fine.failure();
  if (x.arrivals == arrival_process::refit
      && shape.area() > static_cast<double>(max_arrivals))
    return too_many_arrivals();
  auto all = draw_points(x, most, shape.area(), random, function);
  shape.to_real_time(all);
  if (ramp)
    thin_to_ramp(all, rate, to_rate, end, random);
  arrival_times out;
  out.reserve(all.size());
  for (auto at : all)
    out.push_back(microseconds{std::llround(at * 1e6)});
  if (x.requests > 0) // rounding makes no arrival too late
    for (auto& at : out)
      at = std::min(at, length - 1us);
  return out;
}

/// Whether exactly() can draw the part's points.
bool has_exact_gaps(const workload_part& x) {
  using enum arrival_process;
  return x.arrivals == poisson || x.arrivals == constant || x.arrivals == gamma;
}

/// Removes arrivals at random until `wanted` are left.
void thin_to(size_t wanted, arrival_times& all, std::vector<uint32_t>* function,
             random_stream& random) {
  auto left = all.size();
  size_t kept = 0;
  for (size_t i = 0; i < all.size(); ++i, --left) {
    if (random.below(left) >= wanted - kept)
      continue;
    all[kept] = all[i];
    if (function != nullptr && !function->empty())
      (*function)[kept] = (*function)[i];
    ++kept;
  }
  all.resize(kept);
  if (function != nullptr && !function->empty())
    function->resize(kept);
}

/// Removes arrivals from `length` on.
void cut(arrival_times& all, microseconds length,
         std::vector<uint32_t>* function) {
  while (!all.empty() && all.back() >= length)
    all.pop_back();
  if (function != nullptr && function->size() > all.size())
    function->resize(all.size());
}

/// Draws exactly as many arrivals as the part wants: draws more at a higher
/// rate, and removes the surplus at random.
result<arrival_times> draw_exactly(workload_part x, microseconds length,
                                   random_stream& random,
                                   std::vector<uint32_t>* function) {
  if (x.requests > max_arrivals)
    return too_many_arrivals();
  auto wanted = static_cast<size_t>(x.requests);
  x.requests = 0;
  x.peak = 0;
  for (int i = 0; i < most_attempts; ++i) {
    if (function != nullptr)
      function->clear();
    auto out = draw(x, length, random, function);
    if (!out)
      return out;
    cut(*out, length, function);
    if (out->size() >= wanted) {
      thin_to(wanted, *out, function, random);
      return out;
    }
    auto missing = static_cast<double>(wanted)
                   / static_cast<double>(std::max<size_t>(1, out->size()));
    x.scale *= std::min(1e6, 1.05 * missing + 0.01);
  }
  return error{ec::bad_request,
               "requests " + std::to_string(wanted)
                 + ": the arrivals have none, or too few, at every rate tried",
               {}};
}

} // namespace

result<arrival_times> make_arrivals(const workload_part& part,
                                    microseconds length, random_stream random,
                                    std::vector<uint32_t>* function) {
  if (!(part.scale > 0) || !std::isfinite(part.scale))
    return error{ec::bad_request,
                 "scale " + format_number(part.scale)
                   + ": expected a number more than 0",
                 {}};
  auto rate = part.rate * part.scale;
  if (!(rate > 0) || !std::isfinite(rate))
    return error{ec::bad_request,
                 "rate " + format_number(part.rate)
                   + ": expected requests per second, more than 0",
                 {}};
  auto out = part.requests > 0 && !has_exact_gaps(part)
               ? draw_exactly(part, length, random, function)
               : draw(part, length, random, function);
  if (!out)
    return out;
  cut(*out, length, function);
  if (part.granularity > 0us)
    for (auto& at : *out)
      at -= at % part.granularity;
  return out;
}

} // namespace millrace
