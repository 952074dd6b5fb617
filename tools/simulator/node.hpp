// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>

#include "actors/node/compose.hpp"
#include "config/scenario.hpp"
#include "models/device/emulated_device.hpp"
#include "runtime/virtual/disk.hpp"
#include "transport/simulated/links.hpp"

namespace millrace::simulator {

/// A batch that a device has run, for better or worse.
struct executed_batch {
  const std::string& node;
  const std::string& device;
  const std::string& model;
  const std::vector<tensor_list>& items; ///< inputs, per request
  uint32_t lane;
  timestamp started;
  timestamp ended;
  bool ok;
};

/// Inputs up to here are marked with their request's id; larger ones share
/// their bytes and have a tag beside them, an input of its own, that is.
constexpr uint64_t marked_bytes = 4096;
constexpr uint64_t tag_bytes = 16;

inline bool is_tagged(const simulated_model& x) {
  return x.input.value > marked_bytes;
}

/// What a bundle of the model would say, had it any bytes.
manifest manifest_of(const std::string& name, const simulated_model& x);

/// The id that a simulated client marked its request's input with; 0: none.
uint64_t request_of(const tensor_list& inputs);

/// What goes on on devices.
class device_observer {
public:
  virtual ~device_observer() = default;
  virtual void on_loaded(const std::string& node, const std::string& device,
                         const load_request& x, timestamp begun,
                         const result<load_report>& how) {
    static_cast<void>(node), static_cast<void>(device);
    static_cast<void>(x), static_cast<void>(begun), static_cast<void>(how);
  }
  virtual void on_unloaded(const std::string& node, const std::string& device,
                           instance_id x) {
    static_cast<void>(node), static_cast<void>(device), static_cast<void>(x);
  }
  /// A host opened a model's bundle, whose bytes were there ("host") or came
  /// from the object store ("store").
  virtual void on_fetched(const std::string& node, const std::string& model,
                          std::string_view from) {
    static_cast<void>(node), static_cast<void>(model);
    static_cast<void>(from);
  }
  /// A device was given a batch: started and ended are not known yet.
  virtual void on_given(const executed_batch& x) { static_cast<void>(x); }
  virtual void on_executed(const executed_batch& x) { static_cast<void>(x); }
};

/// What all nodes of a simulated cluster have in common.
struct node_ground_plan {
  const loaded_scenario* what = nullptr;
  std::shared_ptr<const profile_book> profiles;
  random_stream random{1};
  virtual_world* world = nullptr;
  simulated_links* links = nullptr;
  simulated_outside* outside = nullptr;
  device_observer* devices = nullptr;
  planted_bug bug = planted_bug::none;
  std::function<void(const std::string& node, std::string_view what)> tell;
};

/// What faults do to a host, while they last.
struct host_faults {
  double failing_executions = 0; ///< part of them
  double failing_loads = 0;      ///< onto devices
  double failing_fetches = 0;    ///< from the object store
};

/// A host of the simulated world with its disk, and the process that runs on
/// it, which comes and goes.
class node {
public:
  node(const node_ground_plan& plan, std::string name);
  ~node();

  const std::string& name() const { return name_; }
  host_number host() const { return host_; }
  bool running() const { return process_ != nullptr; }
  bool paused() const { return process_ != nullptr && process_->paused(); }
  simulated_bus* bus() { return bus_.get(); }
  virtual_process* process() { return process_; }
  /// Of the last start.
  const health& state() const { return *state_; }

  /// Starts the process, if none runs.
  void start();

  /// It is gone, in the middle of whatever it did.
  void kill();

  /// It stops, and goes on.
  void pause();
  void resume();

  /// Finishes what it has, then leaves.
  void drain();

  void wipe() {
    disk_->wipe();
    here_->clear();
  }

  /// Devices are so many times slower from now on.
  void set_pace(double times_slower);
  host_faults& faults() { return *faults_; }

private:
  void end(std::string_view why);
  result<std::unique_ptr<device>> make_device(const device_config& x,
                                              device_listener& to);
  std::shared_ptr<bundle_reader> read_bundles();

  const node_ground_plan& plan_;
  std::string name_;
  host_number host_;
  random_stream random_;
  std::shared_ptr<virtual_disk> disk_ = std::make_shared<virtual_disk>();
  std::shared_ptr<device_pace> pace_ = std::make_shared<device_pace>();
  std::shared_ptr<host_faults> faults_ = std::make_shared<host_faults>();
  /// Models fetched from the object store.
  std::shared_ptr<std::set<std::string>> here_ =
    std::make_shared<std::set<std::string>>();
  std::shared_ptr<health> state_;
  virtual_process* process_ = nullptr;
  std::unique_ptr<simulated_bus> bus_;
  uint64_t starts_ = 0;
};

} // namespace millrace::simulator
