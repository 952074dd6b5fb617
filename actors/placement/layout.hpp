// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "actors/placement/parts.hpp"
#include "actors/placement/places.hpp"

namespace millrace {

/// Whether each of its parts is to become a whole replica where it is.
inline bool is_completed(const model_settings& x) {
  return x.complete && (x.parts > 1 || !x.cuts.empty());
}

inline bool is_ready(const placed& r) {
  return r.status->state == replica_condition::ready;
}

inline uint64_t count_ready(const std::vector<placed>& xs) {
  return static_cast<uint64_t>(std::count_if(xs.begin(), xs.end(), is_ready));
}

/// What a replica is to be.
struct wish {
  const model_settings* settings;
  uint64_t version;
  layer_range layers;
};

/// What there is of a model, and what is wanted of it.
struct layout {
  wish whole;
  std::vector<layer_range> parts; ///< that one copy is made of
  std::map<layer_range, std::vector<placed>> right; ///< of each part
  std::vector<placed> wholes; ///< that take, or have taken, the place of parts
  std::vector<placed> wrong;
  bool all_ready = false; ///< as many copies as are wanted

  const model_settings& settings() const { return *whole.settings; }

  wish of(const layer_range& part) const {
    return {whole.settings, whole.version, part};
  }

  /// The copies that are wanted.
  uint64_t copies() const {
    uint64_t n = 0;
    for (size_t i = 0; i < parts.size(); ++i)
      n = std::max(n, wanted_of(settings(), i));
    return n;
  }

  /// What parts become at most: a whole replica each.
  uint64_t most_wholes() const {
    uint64_t n = 0;
    for (size_t i = 0; i < parts.size(); ++i)
      n += wanted_of(settings(), i);
    return n;
  }

  /// The whole replica that is to take the place of a part; null when there is
  /// none.
  const placed* completing(const placed& part) const {
    auto i = std::find_if(wholes.begin(), wholes.end(), [&](auto& r) {
      return r.status->what.completes == part.status->what.replica;
    });
    return i == wholes.end() ? nullptr : &*i;
  }

  /// One on a device; null when there is none.
  const placed* whole_on(const places& all, size_t place) const {
    auto i = std::find_if(wholes.begin(), wholes.end(),
                          [&](auto& r) { return all.of(r) == place; });
    return i == wholes.end() ? nullptr : &*i;
  }

  /// Whole replicas beyond the copies that are wanted.
  std::vector<placed> spare() const {
    std::vector<placed> out;
    auto needed = copies();
    for (auto& r : wholes)
      if (is_ready(r) && needed > 0)
        --needed;
      else
        out.push_back(r);
    return out;
  }

  /// Whether some part has no replica.
  bool is_broken() const {
    return std::any_of(right.begin(), right.end(),
                       [](auto& entry) { return entry.second.empty(); });
  }
};

} // namespace millrace
