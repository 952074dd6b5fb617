// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "models/device/device.hpp"

namespace millrace {

/// A device without actors. Batches of zeros are timed from the call to the
/// listener's callback. Only runs may be called from several threads.
class measured_device : device_listener {
public:
  static result<std::unique_ptr<measured_device>>
  make(device_info info, const backend_settings& settings);

  struct loaded {
    instance_id id;
    load_report report;
  };
  /// Loads all layers of a model, and warms up with this number of rows.
  result<loaded> load(const std::shared_ptr<const bundle>& opened, size_t rows,
                      double share = 0);
  void unload(instance_id instance);

  /// Runs one batch; returns the seconds.
  result<double> run(instance_id instance, const tensor_list& inputs);

  /// The median over `times` batches, one after the other.
  result<double> latency(instance_id instance, const tensor_list& inputs,
                         int times);

  /// Batches per second during `length`, with `under_way` batches at a time.
  result<double> rate(instance_id instance, const tensor_list& inputs,
                      int under_way, nanoseconds length);

private:
  struct ended {
    execution_report report;
    timestamp at;
  };

  void on_loaded(instance_id instance, result<load_report> report) override;
  void on_lost(instance_id instance, error why) override;
  void on_executed(execution_report report) override;

  uint64_t begin(instance_id instance, const tensor_list& inputs);
  ended wait_for(uint64_t id);

  std::unique_ptr<device> device_;
  std::mutex commands_; ///< one command at a time
  std::mutex mutex_;
  std::condition_variable changed_;
  /// guarded, as the members below
  std::map<instance_id, result<load_report>> loaded_;
  std::map<uint64_t, ended> ended_;
  uint64_t last_ = 0;
};

} // namespace millrace
