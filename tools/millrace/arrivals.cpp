// SPDX-License-Identifier: Apache-2.0
#include "millrace/arrivals.hpp"

#include <algorithm>
#include <cmath>

#include <zlib.h>

#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

error too_many() {
  return {ec::bad_request,
          "there would be more than " + std::to_string(max_arrivals)
            + " requests",
          {}};
}

} // namespace

result<arrival_times> poisson_arrivals(double per_second, microseconds length,
                                       random_stream random) {
  if (!(per_second > 0) || !std::isfinite(per_second))
    return error{ec::bad_request,
                 "rate " + format_number(per_second)
                   + ": expected requests per second, more than 0",
                 {}};
  if (per_second * to_seconds(length) > static_cast<double>(max_arrivals))
    return too_many();
  arrival_times out;
  double at = 0;
  auto end = to_seconds(length);
  for (;;) {
    at += -std::log1p(-random.uniform()) / per_second;
    if (at >= end)
      return out;
    out.push_back(microseconds{std::llround(at * 1e6)});
  }
}

namespace {

/// The lines of a file, gzipped or not.
result<std::vector<std::string>> read_lines(const std::string& path) {
  auto* file = ::gzopen(path.c_str(), "rb");
  if (file == nullptr)
    return error{ec::bad_request, path + ": cannot be opened", {}};
  std::vector<std::string> out;
  char line[4096];
  while (::gzgets(file, line, sizeof line) != nullptr) {
    out.emplace_back(line);
    while (!out.back().empty() && std::isspace(out.back().back()))
      out.back().pop_back();
  }
  ::gzclose(file);
  return out;
}

} // namespace

result<arrival_times> trace_arrivals(const std::string& path, double scale,
                                     microseconds length,
                                     random_stream random) {
  if (!(scale > 0) || !std::isfinite(scale))
    return error{ec::bad_request,
                 "scale " + format_number(scale)
                   + ": expected a number more than 0",
                 {}};
  auto lines = read_lines(path);
  if (!lines)
    return lines.failure();
  arrival_times out;
  microseconds second{0};
  for (size_t i = 0; i < lines->size() && second < length; ++i) {
    auto& line = (*lines)[i];
    std::string_view last = split(line, ',').back();
    auto found = number_in<double>(last);
    if (!found || !(*found >= 0)) {
      if (i == 0 || line.empty() || line.front() == '#')
        continue;
      return error{ec::bad_request,
                   path + ":" + std::to_string(i + 1)
                     + ": expected requests per second, found " + shown(line),
                   {}};
    }
    auto wanted = *found * scale;
    if (wanted > static_cast<double>(max_arrivals - out.size()))
      return too_many();
    auto n = static_cast<size_t>(wanted)
             + (random.uniform() < wanted - std::floor(wanted) ? 1 : 0);
    for (size_t k = 0; k < n; ++k)
      out.push_back(
        second + microseconds{static_cast<int64_t>(random.below(1'000'000))});
    second += 1s;
  }
  std::sort(out.begin(), out.end());
  while (!out.empty() && out.back() >= length)
    out.pop_back();
  return out;
}

} // namespace millrace
