// SPDX-License-Identifier: Apache-2.0
#include "bench/measured_device.hpp"

#include <deque>

#include "bench/bench.hpp"

namespace millrace {

result<std::unique_ptr<measured_device>>
measured_device::make(device_info info, const backend_settings& settings) {
  auto out = std::make_unique<measured_device>();
  auto made = make_backend_device(std::move(info), settings, *out);
  if (!made)
    return made.failure();
  out->device_ = std::move(*made);
  return out;
}

result<measured_device::loaded>
measured_device::load(const std::shared_ptr<const bundle>& opened, size_t rows,
                      double share) {
  load_request what;
  {
    std::lock_guard guard{mutex_};
    what.instance = ++last_;
  }
  what.content = opened;
  what.last_layer = opened->info.layers.size();
  what.max_batch = rows;
  what.share = share;
  what.trusted = true;
  auto id = what.instance;
  {
    std::lock_guard guard{commands_};
    device_->load(std::move(what), steady_now());
  }
  std::unique_lock guard{mutex_};
  changed_.wait(guard, [&] { return loaded_.contains(id); });
  auto report = std::move(loaded_.extract(id).mapped());
  if (!report)
    return report.failure();
  return loaded{id, *report};
}

void measured_device::unload(instance_id instance) {
  std::lock_guard guard{commands_};
  device_->unload(instance);
}

uint64_t measured_device::begin(instance_id instance,
                                const tensor_list& inputs) {
  execution what;
  {
    std::lock_guard guard{mutex_};
    what.id = ++last_;
  }
  what.instance = instance;
  what.items = {inputs};
  auto id = what.id;
  std::lock_guard guard{commands_};
  device_->execute(std::move(what), steady_now());
  return id;
}

measured_device::ended measured_device::wait_for(uint64_t id) {
  std::unique_lock guard{mutex_};
  changed_.wait(guard, [&] { return ended_.contains(id); });
  return std::move(ended_.extract(id).mapped());
}

result<double> measured_device::run(instance_id instance,
                                    const tensor_list& inputs) {
  auto begun = steady_now();
  auto out = wait_for(begin(instance, inputs));
  if (!out.report.outputs)
    return out.report.outputs.failure();
  return to_seconds(out.at - begun);
}

result<double> measured_device::latency(instance_id instance,
                                        const tensor_list& inputs, int times) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    auto took = run(instance, inputs);
    if (!took)
      return took;
    all.push_back(*took);
  }
  return median(std::move(all));
}

result<double> measured_device::rate(instance_id instance,
                                     const tensor_list& inputs, int under_way,
                                     nanoseconds length) {
  std::deque<uint64_t> running;
  auto begun = steady_now();
  double done = 0;
  for (int i = 0; i < under_way; ++i)
    running.push_back(begin(instance, inputs));
  while (!running.empty()) {
    auto out = wait_for(running.front());
    running.pop_front();
    if (!out.report.outputs)
      return out.report.outputs.failure();
    ++done;
    if (steady_now() - begun < length)
      running.push_back(begin(instance, inputs));
  }
  return done / to_seconds(steady_now() - begun);
}

void measured_device::on_loaded(instance_id instance,
                                result<load_report> report) {
  {
    std::lock_guard guard{mutex_};
    loaded_.insert_or_assign(instance, std::move(report));
  }
  changed_.notify_all();
}

void measured_device::on_lost(instance_id, error) {
}

void measured_device::on_executed(execution_report report) {
  auto at = steady_now();
  {
    std::lock_guard guard{mutex_};
    auto id = report.id;
    ended_.insert_or_assign(id, ended{std::move(report), at});
  }
  changed_.notify_all();
}

} // namespace millrace
