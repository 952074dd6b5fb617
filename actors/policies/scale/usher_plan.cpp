// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/usher_plan.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace millrace {

namespace {

constexpr double tiny = 1e-6; ///< requests/s or percent that count as 0

/// A group of models, and the sum of Creq - Mreq over them.
struct merged_group {
  std::vector<size_t> models;
  double surplus = 0;
};

merged_group operator+(const merged_group& x, const merged_group& y) {
  auto out = x;
  out.models.insert(out.models.end(), y.models.begin(), y.models.end());
  out.surplus += y.surplus;
  return out;
}

/// Weight of the best perfect matching of groups in the order of their surplus,
/// without the group at `left_out`. The smallest surplus is paired with the
/// largest: the sums of this pairing differ least, and the weight is a convex
/// function of the sums.
double weight_without(const std::vector<merged_group>& all, size_t left_out) {
  std::vector<double> others;
  for (size_t i = 0; i < all.size(); ++i)
    if (i != left_out)
      others.push_back(all[i].surplus);
  double out = 0;
  for (size_t i = 0; i < others.size() / 2; ++i)
    out += std::abs(others[i] + others[others.size() - 1 - i]);
  return out;
}

/// One round: a matching with the most pairs and, among those, the least
/// weight.
std::vector<merged_group> merged(std::vector<merged_group> all) {
  std::stable_sort(all.begin(), all.end(), [](auto& x, auto& y) {
    return x.surplus < y.surplus - tiny;
  });
  std::vector<merged_group> out;
  if (all.size() % 2 == 1) {
    size_t left_out = 0;
    auto least = weight_without(all, 0);
    for (size_t i = 1; i < all.size(); ++i)
      if (auto weight = weight_without(all, i); weight < least - tiny) {
        least = weight;
        left_out = i;
      }
    out.push_back(std::move(all[left_out]));
    all.erase(all.begin() + static_cast<long>(left_out));
  }
  for (size_t i = 0; i < all.size() / 2; ++i)
    out.push_back(all[i] + all[all.size() - 1 - i]);
  return out;
}

/// Demand of the replicas on a device.
struct device_use {
  double compute = 0; ///< percent
  double memory = 0;  ///< percent
  size_t replicas = 0;
  size_t in_group = 0; ///< replicas of the current group
};

/// A number of replicas of a model at one batch size.
struct model_choice {
  size_t model = 0;
  uint64_t replicas = 0;
  usher_batch batch;
  double goodput = 0; ///< requests/s with all replicas
};

/// The placement of a group for one choice per model.
struct group_placement {
  std::vector<device_use> devices;
  std::vector<usher_replica> replicas;
  double goodput = 0;
  size_t used = 0;   ///< devices with a replica of any group
  uint64_t rows = 0; ///< sum of the batch sizes of the models

  bool is_better_than(const group_placement& x) const {
    if (std::abs(goodput - x.goodput) > tiny)
      return goodput > x.goodput;
    return used != x.used ? used < x.used : rows < x.rows;
  }
};

/// Memory-heavy and compute-heavy models in turn, neutral ones last; each kind
/// by descending Creq + Mreq.
std::vector<model_choice> in_order(std::vector<model_choice> all,
                                   double heavy) {
  std::stable_sort(all.begin(), all.end(), [](auto& x, auto& y) {
    return x.batch.compute + x.batch.memory > y.batch.compute + y.batch.memory;
  });
  std::vector<model_choice> memory, compute, neutral, out;
  for (auto& x : all)
    if (x.batch.memory >= heavy * x.batch.compute)
      memory.push_back(x);
    else if (x.batch.compute >= heavy * x.batch.memory)
      compute.push_back(x);
    else
      neutral.push_back(x);
  for (size_t i = 0; i < std::max(memory.size(), compute.size()); ++i) {
    if (i < memory.size())
      out.push_back(memory[i]);
    if (i < compute.size())
      out.push_back(compute[i]);
  }
  out.insert(out.end(), neutral.begin(), neutral.end());
  return out;
}

bool fits(const device_use& x, const usher_batch& batch) {
  constexpr double all = 100 + tiny;
  return x.compute + batch.compute <= all && x.memory + batch.memory <= all;
}

/// The device for a replica of a model that has replicas on the devices
/// `taken`: a device of the group, else a device of other groups, else an
/// unused device.
std::optional<size_t> device_for(const std::vector<device_use>& devices,
                                 const usher_batch& batch,
                                 const std::vector<bool>& taken) {
  std::optional<size_t> of_others, unused;
  for (size_t i = 0; i < devices.size(); ++i) {
    auto& x = devices[i];
    if (taken[i] || !fits(x, batch))
      continue;
    if (x.in_group > 0)
      return i;
    auto& to = x.replicas > 0 ? of_others : unused;
    if (!to)
      to = i;
  }
  return of_others ? of_others : unused;
}

/// Finds the best placement of one group.
class group_search {
public:
  group_search(const std::vector<usher_model>& models,
               const std::vector<size_t>& group,
               const std::vector<device_use>& devices,
               const usher_limits& limits)
    : models_(models),
      limits_(limits) {
    begin_.devices = devices;
    for (auto& x : begin_.devices)
      x.in_group = 0;
    for (auto model : group)
      if (auto all = choices_of(model); !all.empty())
        choices_.push_back(std::move(all));
    most_.assign(choices_.size() + 1, 0);
    for (size_t i = choices_.size(); i-- > 0;)
      most_[i] = most_[i + 1] + choices_[i].front().goodput;
  }

  group_placement run() {
    best_ = begin_;
    best_.goodput = -1;
    choose({}, 0);
    return std::move(best_);
  }

  bool complete() const { return tried_ < limits_.placements; }

private:
  /// Replica counts and batch sizes of a model, the highest goodput first.
  /// Replicas beyond those that serve the rate are never placed.
  std::vector<model_choice> choices_of(size_t model) const {
    auto& x = models_[model];
    std::vector<model_choice> out;
    if (x.batches.empty() || x.rate <= 0)
      return out;
    auto needed = [&](const usher_batch& batch) {
      return static_cast<uint64_t>(
        std::max(1.0, std::ceil((x.rate - tiny) / batch.rate)));
    };
    auto least = needed(x.batches.back());
    for (auto& batch : x.batches)
      for (uint64_t i = 1; i <= limits_.factors; ++i) {
        auto count = i * least;
        if (count > begin_.devices.size())
          break;
        count = std::min(count, needed(batch));
        if (!out.empty() && out.back().batch.rows == batch.rows
            && out.back().replicas == count)
          break;
        auto rate = static_cast<double>(count) * batch.rate;
        out.push_back({model, count, batch, std::min(x.rate, rate)});
      }
    std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) {
      return a.goodput > b.goodput + tiny;
    });
    return out;
  }

  /// Tries the choices of the models from index `next` on.
  void choose(std::vector<model_choice> chosen, double goodput) {
    auto next = chosen.size();
    if (next == choices_.size())
      return place(chosen);
    for (auto& x : choices_[next]) {
      if (goodput + x.goodput + most_[next + 1] < best_.goodput - tiny
          || !complete())
        return;
      chosen.push_back(x);
      choose(chosen, goodput + x.goodput);
      chosen.pop_back();
    }
  }

  void place(const std::vector<model_choice>& chosen) {
    ++tried_;
    auto out = begin_;
    for (auto& x : in_order(chosen, limits_.heavy))
      place_model(x, out);
    for (auto& x : out.devices)
      out.used += x.replicas > 0;
    if (out.is_better_than(best_))
      best_ = std::move(out);
  }

  /// Places replicas until the rate is served or no device has room.
  void place_model(const model_choice& x, group_placement& out) const {
    std::vector<bool> taken(out.devices.size());
    double served = 0;
    for (uint64_t i = 0; i < x.replicas; ++i) {
      auto device = device_for(out.devices, x.batch, taken);
      if (!device)
        break;
      auto& use = out.devices[*device];
      use.compute += x.batch.compute;
      use.memory += x.batch.memory;
      ++use.replicas;
      ++use.in_group;
      taken[*device] = true;
      served += x.batch.rate;
      out.replicas.push_back({x.model, x.batch, *device});
    }
    out.goodput += std::min(models_[x.model].rate, served);
    out.rows += x.batch.rows;
  }

  const std::vector<usher_model>& models_;
  const usher_limits& limits_;
  std::vector<std::vector<model_choice>> choices_; ///< by model
  /// Highest goodput of the models from that index on.
  std::vector<double> most_;
  group_placement begin_, best_;
  uint64_t tried_ = 0;
};

} // namespace

usher_groups group_by_demand(const std::vector<usher_model>& models,
                             uint64_t group_size) {
  std::vector<merged_group> all;
  for (size_t i = 0; i < models.size(); ++i)
    if (auto& x = models[i].batches; !x.empty())
      all.push_back({{i}, x.back().compute - x.back().memory});
  for (auto size = group_size; size > 1 && all.size() > 1; size /= 2)
    all = merged(std::move(all));
  usher_groups out;
  for (auto& x : all) {
    std::sort(x.models.begin(), x.models.end());
    out.push_back(std::move(x.models));
  }
  std::sort(out.begin(), out.end());
  return out;
}

usher_plan make_usher_plan(const std::vector<usher_model>& models,
                           const usher_groups& groups, size_t devices,
                           const usher_limits& limits) {
  usher_plan out;
  std::vector<device_use> use(devices);
  for (auto& group : groups) {
    group_search search{models, group, use, limits};
    auto best = search.run();
    out.complete = out.complete && search.complete();
    out.goodput += std::max(0.0, best.goodput);
    use = std::move(best.devices);
    out.replicas.insert(out.replicas.end(), best.replicas.begin(),
                        best.replicas.end());
  }
  for (auto& x : use)
    out.devices += x.replicas > 0;
  return out;
}

} // namespace millrace
