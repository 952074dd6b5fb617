// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "actors/cache/cache.hpp"
#include "config/scenario.hpp"
#include "simulator/contents.hpp"
#include "simulator/host_disk.hpp"

namespace millrace::simulator {

/// The environment of a simulated host's bundles.
struct bundle_environment {
  std::string node;
  const scenario& what;
  virtual_process& process;
  contents& all;
  host_disk& disk;
};

/// A reader of the models on a host's disk. If the disk has a speed, or if the
/// model is transferred between hosts, weights arrive chunk by chunk. Otherwise
/// a model has no simulated chunks and is complete when it is opened.
std::shared_ptr<bundle_reader>
make_simulated_reader(bundle_environment environment);

/// Keeps bundles from other hosts on a simulated host's disk.
std::shared_ptr<bundle_keeper>
make_simulated_keeper(bundle_environment environment);

} // namespace millrace::simulator
