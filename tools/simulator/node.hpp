// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>

#include "actors/node/compose.hpp"
#include "config/scenario.hpp"
#include "models/device/emulated_device.hpp"
#include "runtime/virtual/disk.hpp"
#include "simulator/bundles.hpp"
#include "simulator/contents.hpp"
#include "simulator/host_disk.hpp"
#include "simulator/host_faults.hpp"
#include "simulator/watcher.hpp"
#include "transport/objects/object_store.hpp"
#include "transport/simulated/bulk.hpp"
#include "transport/simulated/links.hpp"

namespace millrace::simulator {

class machine_yard;

/// The environment that all nodes of a simulated cluster share.
struct node_environment_plan {
  const loaded_scenario* what = nullptr;
  std::shared_ptr<const profile_book> profiles;
  random_stream random{1};
  virtual_world* world = nullptr;
  simulated_links* links = nullptr;
  simulated_bulk_hosts* bulk = nullptr; ///< null: hosts exchange no models
  contents* models = nullptr;
  watcher* seen_by = nullptr;
  planted_bug bug = planted_bug::none;
  machine_yard* machines = nullptr; ///< null: no pools
};

/// A host of the simulated world, with its disk and the process that may run on
/// the host.
class node {
public:
  node(const node_environment_plan& plan, std::string name);
  ~node();

  const std::string& name() const { return name_; }
  host_number host() const { return host_; }
  bool running() const { return process_ != nullptr; }
  bool paused() const { return process_ != nullptr && process_->paused(); }
  simulated_bus* bus() { return bus_.get(); }
  virtual_process* process() { return process_; }
  /// The health of the last start.
  const health& state() const { return *state_; }

  /// Starts the process, if none runs; retries while the disk fails.
  void start();

  /// Ends the process abruptly.
  void kill();

  /// Stops the process, and continues it.
  void pause();
  void resume();

  /// The node finishes its work, then leaves.
  void drain();

  /// Ends one of the node's actors abruptly: drawn by `lot` from the actors
  /// with this name prefix. Never the supervisor, because the process ends with
  /// the supervisor.
  void crash(const std::string& prefix, uint64_t lot);

  /// Erases the disk.
  void wipe();

  /// Slows the devices down by this factor.
  void set_pace(double times_slower);
  /// Makes the devices usable, or unusable.
  void set_usable(bool usable);
  host_faults& faults() { return *faults_; }

private:
  template <class T>
  void send_to_executors(const T& message);
  void end(std::string_view why);
  result<uint64_t> open_facts(std::unique_ptr<fact_journal>& out,
                              uint64_t least = 0);
  void tell(std::string_view what);
  result<std::unique_ptr<device>> make_device(const device_config& settings,
                                              device_listener& to);
  bundle_environment bundles();
  std::unique_ptr<object_store> open_objects(uint64_t parallel);
  store_sources::stores open_stores();
  void vanish();

  const node_environment_plan& plan_;
  std::string name_;
  host_number host_;
  random_stream random_;
  std::shared_ptr<virtual_disk> disk_;
  double times_slower_ = 1; ///< slowdown of the devices
  std::shared_ptr<host_faults> faults_ = std::make_shared<host_faults>();
  host_disk models_;                       ///< the disk, for models
  std::shared_ptr<host_process> attached_; ///< of the running process
  std::shared_ptr<health> state_;
  virtual_process* process_ = nullptr;
  std::unique_ptr<simulated_bus> bus_;
  std::shared_ptr<simulated_bulk> bulk_;
  uint64_t starts_ = 0;
  bool wanted_ = false; ///< started, and not killed since then
};

} // namespace millrace::simulator
