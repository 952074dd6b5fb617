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

/// What all nodes of a simulated cluster have in common.
struct node_environment_plan {
  const loaded_scenario* what = nullptr;
  std::shared_ptr<const profile_book> profiles;
  random_stream random{1};
  virtual_world* world = nullptr;
  simulated_links* links = nullptr;
  simulated_bulk_hosts* bulk = nullptr; ///< null: hosts give each other none
  contents* models = nullptr;
  watcher* seen_by = nullptr;
  planted_bug bug = planted_bug::none;
  machine_yard* machines = nullptr; ///< null: there are no pools
};

/// A host of the simulated world with its disk, and the process that runs on
/// it, which comes and goes.
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
  /// Of the last start.
  const health& state() const { return *state_; }

  /// Starts the process, if none runs; again and again while its disk fails.
  void start();

  /// It is gone, in the middle of whatever it did.
  void kill();

  /// It stops, and goes on.
  void pause();
  void resume();

  /// Finishes what it has, then leaves.
  void drain();

  /// One of its actors ends in the middle of what it does: of those whose name
  /// begins so, which is drawn by `lot`. Never the supervisor, whose end is the
  /// process's.
  void crash(const std::string& prefix, uint64_t lot);

  /// Its disk is empty from now on.
  void wipe();

  /// Devices are so many times slower from now on.
  void set_pace(double times_slower);
  /// Whether anything can run on them.
  void set_usable(bool x);
  host_faults& faults() { return *faults_; }

private:
  template <class T>
  void send_to_executors(const T& x);
  void end(std::string_view why);
  result<uint64_t> open_facts(std::unique_ptr<fact_journal>& out,
                              uint64_t least = 0);
  void tell(std::string_view what);
  result<std::unique_ptr<device>> make_device(const device_config& x,
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
  double times_slower_ = 1; ///< its devices
  std::shared_ptr<host_faults> faults_ = std::make_shared<host_faults>();
  host_disk models_;                       ///< as its disk is used for models
  std::shared_ptr<host_process> attached_; ///< of the running process
  std::shared_ptr<health> state_;
  virtual_process* process_ = nullptr;
  std::unique_ptr<simulated_bus> bus_;
  std::shared_ptr<simulated_bulk> bulk_;
  uint64_t starts_ = 0;
  bool wanted_ = false; ///< started, and not killed since
};

} // namespace millrace::simulator
