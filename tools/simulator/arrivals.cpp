// SPDX-License-Identifier: Apache-2.0
#include "simulator/arrivals.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <zlib.h>

#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "simulator/lines.hpp"

namespace millrace {

namespace {

/// In a file: of requests in a second, or of seconds.
constexpr double highest_number = 1e9;

/// Changes of level, of bursts.
constexpr double most_bursts = 1e7;

error too_many() {
  return {ec::bad_request,
          "there would be more than " + std::to_string(max_arrivals)
            + " requests",
          {}};
}

microseconds from_seconds(double x) {
  return microseconds{std::llround(x * 1e6)};
}

/// Arrivals one gap after the other.
arrival_times by_gaps(double end, const std::function<double()>& gap) {
  arrival_times out;
  for (auto at = gap(); at < end && out.size() < max_arrivals; at += gap())
    out.push_back(from_seconds(at));
  return out;
}

/// A Poisson process of a changing rate, by thinning one of the highest (Lewis
/// and Shedler, 1979).
arrival_times thinned(double end, double highest, random_stream& random,
                      const std::function<double(double)>& rate_at) {
  arrival_times out;
  for (auto at = random.exponential() / highest;
       at < end && out.size() < max_arrivals;
       at += random.exponential() / highest)
    if (random.uniform() * highest < rate_at(at))
      out.push_back(from_seconds(at));
  return out;
}

arrival_times bursts(const workload_part& x, double rate, double end,
                     random_stream& random) {
  // The mean over both levels is the rate.
  auto low = rate / (1 + x.burst_part * (x.burst - 1));
  auto in_burst = to_seconds(x.burst_length);
  auto between = in_burst * (1 - x.burst_part) / x.burst_part;
  auto bursting = random.uniform() < x.burst_part;
  arrival_times out;
  for (double from = 0; from < end; bursting = !bursting) {
    auto until = from + random.exponential() * (bursting ? in_burst : between);
    auto level = bursting ? low * x.burst : low;
    // A Poisson process may begin anew at any point.
    auto at = from + random.exponential() / level;
    for (; at < std::min(until, end) && out.size() < max_arrivals;
         at += random.exponential() / level)
      out.push_back(from_seconds(at));
    from = until;
  }
  return out;
}

arrival_times functions(const workload_part& x, double rate, double end,
                        random_stream& random,
                        std::vector<uint32_t>* function) {
  std::vector<double> weight(x.functions);
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] = std::pow(static_cast<double>(i + 1), -x.tail);
  std::partial_sum(weight.begin(), weight.end(), weight.begin());
  // Poisson processes together are one, whose points each belong to one of
  // them by chance.
  auto out = by_gaps(end, [&] { return random.exponential() / rate; });
  if (function == nullptr)
    return out;
  for (size_t i = 0; i < out.size(); ++i) {
    auto at = random.uniform() * weight.back();
    auto found = std::upper_bound(weight.begin(), weight.end(), at);
    function->push_back(static_cast<uint32_t>(found - weight.begin()));
  }
  return out;
}

/// The last column of each line, which has to be a number of at least 0. There
/// has to be one.
result<std::vector<double>> read_numbers(const std::string& path,
                                         const char* what) {
  auto lines = read_lines(path);
  if (!lines)
    return lines.failure();
  std::vector<double> out;
  for (size_t i = 0; i < lines->size(); ++i) {
    auto& line = (*lines)[i];
    std::string_view last = split(line, ',').back();
    auto found = number_in<double>(last);
    if (found && *found >= 0 && *found <= highest_number) {
      out.push_back(*found);
      continue;
    }
    auto heading =
      i == 0 && !found && !last.empty()
      && (std::isalpha(static_cast<unsigned char>(last.front())) != 0
          || last.front() == '"');
    if (heading || line.starts_with('#'))
      continue;
    return error{ec::bad_request,
                 path + ":" + std::to_string(i + 1) + ": expected " + what
                   + ", at most 1e9, found " + shown(line),
                 {}};
  }
  if (out.empty())
    return error{ec::bad_request, path + ": has no " + std::string{what}, {}};
  return out;
}

/// A whole number near x: the fraction is settled by chance.
size_t rounded(double x, random_stream& random) {
  return static_cast<size_t>(x)
         + (random.uniform() < x - std::floor(x) ? 1 : 0);
}

result<arrival_times> by_rates(const workload_part& x, microseconds length,
                               random_stream& random) {
  auto rates = read_numbers(x.file, "requests per second");
  if (!rates)
    return rates.failure();
  arrival_times out;
  microseconds second{0};
  for (auto rate : *rates) {
    if (second >= length)
      break;
    auto wanted = rate * x.scale;
    if (wanted > static_cast<double>(max_arrivals - out.size()))
      return too_many();
    for (auto n = rounded(wanted, random); n > 0; --n)
      out.push_back(
        second + microseconds{static_cast<int64_t>(random.below(1'000'000))});
    second += 1s;
  }
  std::sort(out.begin(), out.end());
  return out;
}

result<arrival_times> by_times(const workload_part& x, random_stream& random) {
  auto times = read_numbers(x.file, "seconds");
  if (!times)
    return times.failure();
  std::sort(times->begin(), times->end());
  arrival_times out;
  for (auto t : *times) {
    auto n = rounded(x.scale, random);
    if (n > max_arrivals - out.size())
      return too_many();
    out.insert(out.end(), n, from_seconds(t - times->front()));
  }
  return out;
}

} // namespace

result<std::vector<std::string>> read_lines(const std::string& path) {
  auto* file = ::gzopen(path.c_str(), "rb");
  if (file == nullptr)
    return error{ec::bad_request, path + ": cannot be opened", {}};
  std::vector<std::string> out;
  bool whole = true; // the line before
  char part[4096];
  while (::gzgets(file, part, sizeof part) != nullptr) {
    if (whole)
      out.emplace_back();
    out.back() += part;
    whole = out.back().ends_with('\n');
  }
  if (!out.empty() && out.front().starts_with("\xEF\xBB\xBF"))
    out.front().erase(0, 3); // a byte order mark
  for (auto& line : out)
    while (!line.empty() && std::isspace(line.back()))
      line.pop_back();
  while (!out.empty() && out.back().empty())
    out.pop_back();
  if (::gzclose(file) != Z_OK)
    return error{
      ec::bad_request, path + ": is damaged, or ends in the middle", {}};
  return out;
}

result<arrival_times> make_arrivals(const workload_part& x, microseconds length,
                                    random_stream random,
                                    std::vector<uint32_t>* function) {
  if (!(x.scale > 0) || !std::isfinite(x.scale))
    return error{ec::bad_request,
                 "scale " + format_number(x.scale)
                   + ": expected a number more than 0",
                 {}};
  auto rate = x.rate * x.scale;
  if (!(rate > 0) || !std::isfinite(rate))
    return error{ec::bad_request,
                 "rate " + format_number(x.rate)
                   + ": expected requests per second, more than 0",
                 {}};
  auto from_file = x.arrivals == arrival_process::rates
                   || x.arrivals == arrival_process::times;
  auto end = to_seconds(length);
  auto most = std::max(rate, x.to_rate * x.scale);
  if (!from_file && most * end > static_cast<double>(max_arrivals))
    return too_many();
  if (x.arrivals == arrival_process::bursts
      && end * x.burst_part / to_seconds(x.burst_length) > most_bursts)
    return error{ec::bad_request,
                 "burst_length: there would be more than ten million bursts",
                 {}};
  result<arrival_times> out = arrival_times{};
  switch (x.arrivals) {
  case arrival_process::poisson:
    out = by_gaps(end, [&] { return random.exponential() / rate; });
    break;
  case arrival_process::constant:
    out = by_gaps(end, [&] { return 1 / rate; });
    break;
  case arrival_process::gamma: {
    auto shape = 1 / (x.cv * x.cv);
    // At a point in the middle of a process that has long gone on: the gap
    // there is one of those that long ones are more of, and partly over.
    auto first = random.uniform() * random.gamma(shape + 1) / shape / rate;
    out = by_gaps(end, [&] {
      return first >= 0 ? std::exchange(first, -1)
                        : random.gamma(shape) / shape / rate;
    });
    break;
  }
  case arrival_process::bursts:
    out = bursts(x, rate, end, random);
    break;
  case arrival_process::ramp:
    out = thinned(end, most, random, [&](double at) {
      return rate + (x.to_rate * x.scale - rate) * at / end;
    });
    break;
  case arrival_process::functions:
    out = functions(x, rate, end, random, function);
    break;
  case arrival_process::rates:
    out = by_rates(x, length, random);
    break;
  case arrival_process::times:
    out = by_times(x, random);
    break;
  }
  while (out && !out->empty() && out->back() >= length)
    out->pop_back();
  return out;
}

} // namespace millrace
