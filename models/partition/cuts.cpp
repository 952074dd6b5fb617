// SPDX-License-Identifier: Apache-2.0
#include "models/partition/cuts.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/error.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Fills parts up to `most` bytes each, but leaves at least one layer for each
/// part. The last part has the rest.
std::vector<uint64_t> fill(const std::vector<uint64_t>& layer_bytes,
                           size_t parts, uint64_t most) {
  std::vector<uint64_t> cuts;
  uint64_t sum = 0;
  for (size_t i = 0; i < layer_bytes.size(); ++i) {
    auto others = parts - 1 - cuts.size();
    auto needed = layer_bytes.size() - i <= others;
    auto full = sum + layer_bytes[i] > most && others > 0;
    if (i > 0 && (needed || full)) {
      cuts.push_back(i);
      sum = 0;
    }
    sum += layer_bytes[i];
  }
  return cuts;
}

} // namespace

uint64_t largest_part(const std::vector<uint64_t>& layer_bytes,
                      const std::vector<uint64_t>& cuts) {
  uint64_t out = 0, sum = 0;
  auto next = cuts.begin();
  for (size_t i = 0; i < layer_bytes.size(); ++i) {
    if (next != cuts.end() && *next == i) {
      sum = 0;
      ++next;
    }
    sum += layer_bytes[i];
    out = std::max(out, sum);
  }
  return out;
}

std::vector<uint64_t> even_cuts(const std::vector<uint64_t>& layer_bytes,
                                size_t parts) {
  MILLRACE_ASSERT(parts > 0 && parts <= layer_bytes.size());
  uint64_t too_few = 0;
  auto enough =
    std::accumulate(layer_bytes.begin(), layer_bytes.end(), uint64_t{1});
  while (enough - too_few > 1) {
    auto most = too_few + (enough - too_few) / 2;
    auto fits =
      largest_part(layer_bytes, fill(layer_bytes, parts, most)) <= most;
    (fits ? enough : too_few) = most;
  }
  return fill(layer_bytes, parts, enough);
}

result<void> check_cuts(const cut_wish& wish, uint64_t layers) {
  auto refuse = [](std::string why) {
    return error{ec::bad_request, std::move(why), {}};
  };
  auto has = "it has " + counted(layers, "layer");
  auto parts = wish.part_count();
  if (wish.parts != 1 && wish.parts != parts)
    return refuse(counted(wish.cuts.size(), "cut") + " for "
                  + counted(parts, "part")
                  + ", found parts: " + std::to_string(wish.parts));
  if (layers > 0 && parts > layers)
    return refuse(has + ", and cannot be cut into " + std::to_string(parts)
                  + " parts");
  uint64_t first = 0;
  for (auto cut : wish.cuts) {
    if (layers > 0 && (cut == 0 || cut >= layers))
      return refuse(has + ", and cannot be cut at " + std::to_string(cut));
    if (cut <= first)
      return refuse("cuts: " + std::to_string(cut) + " after "
                    + std::to_string(first)
                    + ", expected ascending numbers of layers from 1 on");
    first = cut;
  }
  if (!wish.counts.empty() && wish.counts.size() != parts)
    return refuse("replicas_of_parts: has " + std::to_string(wish.counts.size())
                  + " numbers for " + std::to_string(parts) + " parts");
  for (auto n : wish.counts)
    if (n == 0 || n > most_of_a_part)
      return refuse("replicas_of_parts: expected 1 to "
                    + std::to_string(most_of_a_part) + " of each, found "
                    + std::to_string(n));
  if (!wish.counts.empty() && wish.replicas > 1)
    return refuse("replicas: " + std::to_string(wish.replicas)
                  + " beside replicas_of_parts, which has the number for each"
                    " part; expected 1, or 0 for none");
  return {};
}

} // namespace millrace
