// SPDX-License-Identifier: Apache-2.0
#include "simulator/observed_device.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "simulator/model.hpp"

namespace millrace::simulator {

namespace {

/// Bytes of an input that are copied to the output.
constexpr size_t echoed = 16;

class observed_device : public device, private device_listener {
public:
  observed_device(
    device_place place, device_listener& to,
    const std::function<std::unique_ptr<device>(device_listener&)>& make)
    : place_(std::move(place)),
      to_(to),
      inner_(make(*this)) {}

  /// The executor has ended, and so have all its batches and replicas.
  ~observed_device() override {
    uint32_t lane = 0;
    for (auto& x : running_)
      if (x.started)
        place_.seen_by->on_executed(
          {x.given(where()), lane++, *x.started, now(), false});
    for (auto& [instance, x] : loads_)
      place_.seen_by->on_unloaded(where(), instance, now());
  }

  void load(load_request request, timestamp now) override {
    look(now);
    loads_[request.instance] = {request, now};
    place_.seen_by->on_load_begun(where(), request,
                                  place_.process->global(now));
    inner_->load(std::move(request), now);
  }

  void unload(instance_id instance) override {
    if (place_.forgets_to_unload)
      return;
    inner_->unload(instance);
    lost_.erase(instance);
    if (loads_.erase(instance) != 0)
      place_.seen_by->on_unloaded(where(), instance, now());
  }

  void execute(execution batch, timestamp now) override {
    auto i = loads_.find(batch.instance);
    if (i == loads_.end() || lost_.contains(batch.instance)) {
      to_.on_executed({batch.id, 0, not_run(), now, now});
      return;
    }
    auto& y = running_.emplace_back();
    y.id = batch.id;
    y.instance = batch.instance;
    y.model = i->second.what.content->info.name;
    y.begins = i->second.what.first_layer == 0;
    y.layers = {i->second.what.first_layer, i->second.what.last_layer};
    y.requests = requests_of(batch);
    y.joined = !batch.rows.empty();
    y.items = batch.items;
    place_.seen_by->on_given(y.given(where()), place_.process->global(now));
    note_starts();
    inner_->execute(std::move(batch), now);
  }

  void on_arrival(instance_id instance, result<void> there,
                  timestamp now) override {
    inner_->on_arrival(instance, std::move(there), now);
  }

  bool slow_down(double factor, timestamp now) override {
    return inner_->slow_down(factor, now);
  }

  void set_threads(instance_id instance, uint32_t threads) override {
    inner_->set_threads(instance, threads);
  }

  timestamp next_due() const override { return inner_->next_due(); }
  void advance(timestamp now) override {
    inner_->advance(now);
    look(now);
  }

private:
  struct loaded {
    load_request what;
    timestamp begun;
  };
  struct batch {
    uint64_t id = 0; ///< given by the executor
    instance_id instance = 0;
    std::string model;
    std::vector<uint64_t> requests;
    std::vector<tensor_list> items;
    bool begins = true;
    std::pair<size_t, size_t> layers;
    bool joined = false; ///< with another batch, before or after the stage
    std::optional<timestamp> started;

    given_batch given(device_name where) const {
      return {where,    model,        requests,     begins,
              instance, layers.first, layers.second};
    }
  };
  using batch_list = std::vector<batch>;

  device_name where() const { return {place_.node, place_.device}; }
  timestamp now() const { return place_.process->world().now(); }

  /// The first batches of the list run, one on each lane.
  void note_starts() {
    auto left = place_.lanes;
    for (auto i = running_.begin(); i != running_.end() && left > 0;
         ++i, --left)
      if (!i->started)
        i->started = now();
  }

  /// Reports a change of the device's usability.
  void look(timestamp now) {
    auto unusable = place_.faults->unusable_devices;
    if (unusable == std::exchange(unusable_, unusable))
      return;
    if (!unusable)
      return to_.on_usable({});
    for (auto& [instance, x] : loads_)
      lost_.insert(instance);
    while (!running_.empty())
      end_with_process(take(running_.begin()), now);
    to_.on_usable(error{ec::unavailable, "the device is lost", {}});
  }

  bool fails(double part) { return part > 0 && place_.random.uniform() < part; }

  void on_loaded(instance_id instance, result<load_report> report) override {
    if (report && fails(place_.faults->failing_loads))
      report = error{ec::unavailable, "the device took no load", {}};
    if (auto i = loads_.find(instance); i != loads_.end())
      place_.seen_by->on_loaded(where(), i->second.what,
                                place_.process->global(i->second.begun), report,
                                now());
    to_.on_loaded(instance, std::move(report));
  }

  void on_lost(instance_id instance, error why) override {
    to_.on_lost(instance, std::move(why));
  }

  static error not_run() {
    return {ec::unavailable, "the model's process has ended"};
  }

  /// The process of an instance ends: its running batches fail, waiting batches
  /// are returned.
  void lose(instance_id x, timestamp ended) {
    lost_.insert(x);
    to_.on_lost(x, {ec::unavailable, "the model's process ended"});
    auto is_its = [&](auto& y) { return y.instance == x; };
    for (auto i = running_.begin();
         (i = std::find_if(i, running_.end(), is_its)) != running_.end();) {
      auto at = i - running_.begin();
      end_with_process(take(i), ended);
      i = running_.begin() + at;
    }
    note_starts();
  }

  batch take(batch_list::iterator i) {
    auto out = std::move(*i);
    running_.erase(i);
    return out;
  }

  void end_with_process(const batch& x, timestamp ended) {
    execution_report report{x.id, 0, not_run(), ended, ended};
    auto what = x.given(where());
    if (x.started) {
      report.outputs = error{ec::poison, "the model's process ended"};
      place_.seen_by->on_executed({what, 0, *x.started, now(), false});
    } else {
      place_.seen_by->on_returned(what, now());
    }
    to_.on_executed(std::move(report));
  }

  void on_executed(execution_report report) override {
    auto found = std::find_if(running_.begin(), running_.end(),
                              [&](auto& x) { return x.id == report.id; });
    if (found == running_.end())
      return; // ended with its process
    if (report.outputs && fails(place_.faults->ending_executions))
      return lose(found->instance, report.ended);
    if (report.outputs && fails(place_.faults->failing_executions))
      report.outputs = error{ec::internal, "the device failed", {}};
    auto done = take(found);
    note_starts();
    if (report.outputs && done.joined)
      pass_tags(done.items, *report.outputs);
    else if (report.outputs)
      for (size_t i = 0; i < report.outputs->size(); ++i)
        echo(done.items[i], (*report.outputs)[i]);
    place_.seen_by->on_executed({done.given(where()), report.lane,
                                 place_.process->global(report.started),
                                 place_.process->global(report.ended),
                                 static_cast<bool>(report.outputs)});
    to_.on_executed(std::move(report));
  }

  /// Copies the first tensors of the inputs to the outputs, which may be split
  /// into requests differently.
  static void pass_tags(const std::vector<tensor_list>& from,
                        std::vector<tensor_list>& to) {
    std::string tags;
    for (auto& item : from)
      tags += item.at(0).data.text();
    auto all = shared_bytes::copy_of(tags);
    size_t at = 0;
    for (auto& item : to) {
      auto& tag = item.at(0).data;
      tag = all.slice(at, tag.size());
      at += tag.size();
    }
  }

  static void echo(const tensor_list& from, tensor_list& to) {
    if (from.empty() || to.empty() || from[0].data.size() < echoed
        || to[0].data.size() < echoed)
      return;
    std::string bytes{to[0].data.text()};
    std::memcpy(bytes.data(), from[0].data.data(), echoed);
    to[0].data = shared_bytes::copy_of(bytes);
  }

  device_place place_;
  device_listener& to_;
  std::map<instance_id, loaded> loads_;
  batch_list running_; ///< running, or waiting for a lane, in FIFO order
  std::set<instance_id> lost_;
  bool unusable_ = false;
  std::unique_ptr<device> inner_;
};

} // namespace

std::unique_ptr<device> observe_device(
  device_place place, device_listener& to,
  const std::function<std::unique_ptr<device>(device_listener&)>& make) {
  return std::make_unique<observed_device>(std::move(place), to, make);
}

} // namespace millrace::simulator
