// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace millrace {

/// The order in which devices are considered for a replica.
enum class device_order : uint8_t {
  emptiest,    ///< fewest replicas first
  fullest,     ///< smallest unused part first, then most replicas
  most_memory, ///< most free bytes first
  most_units   ///< most free units first
};

/// Values of a device in the index, or the best values of several devices.
struct capacity_summary {
  static constexpr auto none = std::numeric_limits<uint64_t>::max();

  uint64_t emptiest = none; ///< rank in that order; smaller comes first
  uint64_t fullest = none;  ///< rank in that order
  uint64_t free = 0;        ///< bytes that replicas leave free
  uint64_t free_whole = 0;  ///< bytes, less reservations for whole replicas
  uint64_t free_units = 0;  ///< none: not limited

  uint64_t rank(device_order by) const {
    auto most = [this](uint64_t x) {
      return emptiest == none ? none : none - 1 - std::min(x, none - 1);
    };
    switch (by) {
    case device_order::emptiest:
      return emptiest;
    case device_order::fullest:
      return fullest;
    case device_order::most_memory:
      return most(free);
    default:
      return most(free_units);
    }
  }

  capacity_summary joined_with(const capacity_summary& other) const {
    return {std::min(emptiest, other.emptiest),
            std::min(fullest, other.fullest), std::max(free, other.free),
            std::max(free_whole, other.free_whole),
            std::max(free_units, other.free_units)};
  }

  friend bool operator==(const capacity_summary&,
                         const capacity_summary&) = default;
};

/// The least need of a replica on any device of one kind.
struct capacity_need {
  uint64_t bytes = 0;
  bool whole = false; ///< bytes are needed beside the reservations
  uint64_t units = 0;

  bool is_met_by(const capacity_summary& summary) const {
    return (whole ? summary.free_whole : summary.free) >= bytes
           && summary.free_units >= units;
  }
};

/// Devices of one kind as a tournament tree: each inner node has the best
/// values of its devices, so that a search skips whole subtrees. A change and a
/// search take O(log n) steps. A search takes more steps when early devices of
/// the order pass the summary and fail `pass`.
class capacity_tree {
public:
  /// Rank and number of a device; smaller is better.
  using found = std::pair<uint64_t, size_t>;

  /// Adds a device with a higher number than all before. Returns its position.
  size_t add(size_t device) {
    devices_.push_back(device);
    return devices_.size() - 1;
  }

  /// Makes room for the summaries of all devices, each unknown.
  void grow() {
    width_ = 1;
    while (width_ < devices_.size())
      width_ *= 2;
    nodes_.assign(2 * width_, {});
  }

  void set(size_t place, const capacity_summary& summary) {
    auto i = width_ + place;
    nodes_[i] = summary;
    for (i /= 2; i > 0; i /= 2) {
      auto best = nodes_[2 * i].joined_with(nodes_[2 * i + 1]);
      if (best == nodes_[i])
        return;
      nodes_[i] = best;
    }
  }

  const capacity_summary& at(size_t place) const {
    return nodes_[width_ + place];
  }

  /// Sets `best` to the first device in the order that meets the need and
  /// `pass`, if that device comes before the present `best`.
  template <class Pass>
  void search(device_order by, const capacity_need& need,
              std::optional<found>& best, const Pass& pass) const {
    if (!devices_.empty())
      search_below(1, width_, by, need, best, pass);
  }

  friend bool operator==(const capacity_tree&, const capacity_tree&) = default;

private:
  /// `leaves`: number of positions below the node.
  template <class Pass>
  void search_below(size_t node, size_t leaves, device_order by,
                    const capacity_need& need, std::optional<found>& best,
                    const Pass& pass) const {
    auto& x = nodes_[node];
    auto rank = x.rank(by);
    if (rank == capacity_summary::none || !need.is_met_by(x))
      return;
    found first{rank, devices_[node * leaves - width_]};
    if (best && *best <= first)
      return;
    if (leaves == 1) {
      if (pass(first.second))
        best = first;
      return;
    }
    auto left = 2 * node, right = left + 1;
    if (nodes_[right].rank(by) < nodes_[left].rank(by))
      std::swap(left, right);
    search_below(left, leaves / 2, by, need, best, pass);
    search_below(right, leaves / 2, by, need, best, pass);
  }

  std::vector<size_t> devices_; ///< numbers, rising
  size_t width_ = 1;            ///< places, a power of two
  std::vector<capacity_summary> nodes_ = std::vector<capacity_summary>(2);
};

} // namespace millrace
