// SPDX-License-Identifier: Apache-2.0
#include "simulator/arrival_files.hpp"

#include <algorithm>
#include <cmath>

#include <zlib.h>

#include "runtime/text.hpp"
#include "simulator/lines.hpp"

namespace millrace {

namespace {

/// Limit for a number in a file: requests per second, or seconds.
constexpr double highest_number = 1e9;

/// Parses the last column of each line, a number of at least 0. Errors:
/// bad_request for other text, and for a file without numbers.
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

/// Rounds x up with a probability equal to its fraction, else down.
size_t rounded(double x, random_stream& random) {
  return static_cast<size_t>(x)
         + (random.uniform() < x - std::floor(x) ? 1 : 0);
}

/// The factor for the file's numbers.
double scale_of(const workload_part& x, double busiest) {
  return x.peak > 0 && busiest > 0 ? x.peak / busiest : x.scale;
}

/// The largest number of arrivals in one second; seconds count from the first
/// arrival.
double busiest_second(const std::vector<double>& times) {
  double out = 0;
  for (size_t i = 0; i < times.size();) {
    auto second = std::floor(times[i] - times.front());
    auto from = i;
    while (i < times.size() && std::floor(times[i] - times.front()) == second)
      ++i;
    out = std::max(out, static_cast<double>(i - from));
  }
  return out;
}

} // namespace

error too_many_arrivals() {
  return {ec::bad_request,
          "there would be more than " + std::to_string(max_arrivals)
            + " requests",
          {}};
}

result<std::vector<std::string>> read_lines(const std::string& path) {
  auto* file = ::gzopen(path.c_str(), "rb");
  if (file == nullptr)
    return error{ec::bad_request, path + ": cannot be opened", {}};
  std::vector<std::string> out;
  bool whole = true; // the last line read has its line end
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

result<std::vector<double>> rates_of_file(const workload_part& part) {
  if (part.offset % 1s != 0us)
    return error{ec::bad_request,
                 "offset: expected whole seconds with a file of rates",
                 {}};
  auto rates = read_numbers(part.file, "requests per second");
  if (!rates)
    return rates.failure();
  auto scale = scale_of(part, *std::max_element(rates->begin(), rates->end()));
  for (auto& rate : *rates)
    rate *= scale;
  auto first = static_cast<size_t>(part.offset / 1s) % rates->size();
  std::rotate(rates->begin(),
              rates->begin() + static_cast<std::ptrdiff_t>(first),
              rates->end());
  return rates;
}

result<arrival_times> by_rates(const workload_part& part, microseconds length,
                               random_stream& random) {
  auto rates = rates_of_file(part);
  if (!rates)
    return rates.failure();
  arrival_times out;
  microseconds second{0};
  for (auto rate : *rates) {
    if (second >= length)
      break;
    if (rate > static_cast<double>(max_arrivals - out.size()))
      return too_many_arrivals();
    for (auto n = rounded(rate, random); n > 0; --n)
      out.push_back(
        second + microseconds{static_cast<int64_t>(random.below(1'000'000))});
    second += 1s;
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Repeats the file after its last whole second, so that no arrival is lost
/// when the replay starts at an offset.
result<arrival_times> by_times(const workload_part& part,
                               random_stream& random) {
  auto times = read_numbers(part.file, "seconds");
  if (!times)
    return times.failure();
  std::sort(times->begin(), times->end());
  auto scale = scale_of(part, busiest_second(*times));
  auto span = std::floor(times->back() - times->front()) + 1;
  auto offset = std::fmod(to_seconds(part.offset), span);
  arrival_times out;
  for (auto t : *times) {
    auto n = rounded(scale, random);
    if (n > max_arrivals - out.size())
      return too_many_arrivals();
    auto at = t - times->front() - offset;
    at += at < 0 ? span : 0;
    out.insert(out.end(), n, microseconds{std::llround(at * 1e6)});
  }
  std::sort(out.begin(), out.end());
  return out;
}

} // namespace millrace
