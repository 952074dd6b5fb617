// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "models/device/device.hpp"

namespace millrace {

namespace {

using seconds_d = std::chrono::duration<double>;

uint64_t weight_bytes(const load_request& x) {
  uint64_t n = 0;
  for (auto& w : weights_of(*x.content, x.first_layer, x.last_layer))
    n += w.value.data.size();
  return n;
}

class emulated_device : public device {
public:
  emulated_device(device_info info, emulation how, device_listener& listener)
    : info_(std::move(info)),
      how_(how),
      listener_(listener) {
    info_.lanes = std::max(1u, info_.lanes);
    waiting_.resize(info_.lanes);
  }

  const device_info& info() const override { return info_; }

  void load(load_request x, timestamp now) override {
    loading_.emplace(now + how_.load, x.instance);
    loaded_[x.instance] = std::move(x);
  }

  void unload(instance_id x) override { loaded_.erase(x); }

  void execute(execution x, timestamp now) override {
    move_on(now);
    auto lane = x.lane % info_.lanes;
    waiting_[lane].push_back(std::move(x));
    start_waiting(now);
  }

  timestamp next_due() const override {
    auto due = loading_.empty() ? far_future : loading_.begin()->first;
    for (auto& x : running_)
      due = std::min(due, at_ + to_time(x.left * slowdown()));
    return due;
  }

  void advance(timestamp now) override {
    while (!loading_.empty() && loading_.begin()->first <= now) {
      auto instance = loading_.begin()->second;
      loading_.erase(loading_.begin());
      finish_load(instance);
    }
    move_on(now);
    std::vector<work> done;
    std::erase_if(running_, [&](work& x) {
      if (x.left > seconds_d{1e-9})
        return false;
      done.push_back(std::move(x));
      return true;
    });
    start_waiting(now);
    for (auto& x : done)
      listener_.on_executed(
        {x.job.id, x.job.lane, outputs_of(x.job), x.started, now});
  }

private:
  struct work {
    execution job;
    seconds_d left; ///< alone on the device
    timestamp started;
  };

  static nanoseconds to_time(seconds_d x) {
    return std::chrono::ceil<nanoseconds>(x);
  }

  double slowdown() const {
    auto neighbours = running_.empty() ? 0 : running_.size() - 1;
    return 1 + how_.slowdown * static_cast<double>(neighbours);
  }

  /// Lets what runs get on from at_ to now, each slowed by its neighbours.
  void move_on(timestamp now) {
    if (now <= at_)
      return;
    auto gained = seconds_d{now - at_} / slowdown();
    for (auto& x : running_)
      x.left -= gained;
    at_ = now;
  }

  bool lane_is_free(uint32_t lane) const {
    return std::none_of(running_.begin(), running_.end(), [&](auto& x) {
      return x.job.lane % info_.lanes == lane;
    });
  }

  void start_waiting(timestamp now) {
    for (uint32_t lane = 0; lane < info_.lanes; ++lane) {
      if (waiting_[lane].empty() || !lane_is_free(lane))
        continue;
      auto job = std::move(waiting_[lane].front());
      waiting_[lane].erase(waiting_[lane].begin());
      auto time =
        how_.per_batch + how_.per_row * static_cast<int64_t>(rows_of(job));
      running_.push_back({std::move(job), time, now});
      at_ = now;
    }
  }

  static size_t rows_of(const tensor_list& item, int axis) {
    if (axis < 0 || item.empty())
      return 1;
    return static_cast<size_t>(item.front().extents[static_cast<size_t>(axis)]);
  }

  size_t rows_of(const execution& x) const {
    auto i = loaded_.find(x.instance);
    if (i == loaded_.end())
      return x.items.size();
    size_t n = 0;
    for (auto& item : x.items)
      n += rows_of(item, i->second.content->info.signature.batch_axis);
    return n;
  }

  result<std::vector<tensor_list>> outputs_of(const execution& x) const {
    auto i = loaded_.find(x.instance);
    if (i == loaded_.end())
      return error{ec::unavailable, "the replica is unloaded"};
    auto& s = i->second.content->info.signature;
    std::vector<tensor_list> out;
    for (auto& item : x.items) {
      auto& list = out.emplace_back();
      auto rows = static_cast<int64_t>(rows_of(item, s.batch_axis));
      for (auto& spec : s.outputs) {
        auto y = tensor::zeros(spec.type, with_rows(spec, s.batch_axis, rows));
        if (!y)
          return y.failure();
        list.push_back(std::move(*y));
      }
    }
    return out;
  }

  void finish_load(instance_id x) {
    auto i = loaded_.find(x);
    if (i == loaded_.end()) {
      listener_.on_loaded(x, error{ec::cancelled, "unloaded while loading"});
      return;
    }
    load_report report;
    report.memory = {weight_bytes(i->second)};
    report.load = how_.load;
    listener_.on_loaded(x, report);
  }

  device_info info_;
  emulation how_;
  device_listener& listener_;
  std::map<instance_id, load_request> loaded_;
  std::multimap<timestamp, instance_id> loading_;
  std::vector<std::vector<execution>> waiting_; // per lane
  std::vector<work> running_;                   // at most one per lane
  timestamp at_;                                // running_ is as of then
};

} // namespace

std::unique_ptr<device> make_emulated_device(device_info info, emulation how,
                                             device_listener& listener) {
  return std::make_unique<emulated_device>(std::move(info), how, listener);
}

} // namespace millrace
