// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "models/device/device.hpp"

namespace millrace {

/// A device by itself, without actors, whose batches of zeros are timed from
/// the call to the listener's being told. For one thread at a time, but for
/// runs, of which there may be several at once.
class measured_device : device_listener {
public:
  static result<std::unique_ptr<measured_device>>
  make(device_info info, const backend_settings& settings);

  struct loaded {
    instance_id id;
    load_report report;
  };
  /// Loads all of a model's layers and warms them up with so many rows.
  result<loaded> load(const std::shared_ptr<const bundle>& x, size_t rows,
                      double share = 0);
  void unload(instance_id x);

  /// Seconds that one batch takes.
  result<double> run(instance_id x, const tensor_list& inputs);

  /// The median of so many, one after the other.
  result<double> latency(instance_id x, const tensor_list& inputs, int times);

  /// Batches a second, with so many under way at a time, over so long.
  result<double> rate(instance_id x, const tensor_list& inputs, int under_way,
                      nanoseconds length);

private:
  struct ended {
    execution_report report;
    timestamp at;
  };

  void on_loaded(instance_id x, result<load_report> report) override;
  void on_lost(instance_id x, error why) override;
  void on_executed(execution_report report) override;

  uint64_t begin(instance_id x, const tensor_list& inputs);
  ended wait_for(uint64_t id);

  std::unique_ptr<device> device_;
  std::mutex commands_; ///< of which there is one at a time
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<instance_id, result<load_report>> loaded_; ///< guarded, as all below
  std::map<uint64_t, ended> ended_;
  uint64_t last_ = 0;
};

} // namespace millrace
