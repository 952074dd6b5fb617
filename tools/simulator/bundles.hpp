// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "actors/cache/cache.hpp"
#include "config/scenario.hpp"
#include "simulator/contents.hpp"
#include "simulator/host_disk.hpp"

namespace millrace::simulator {

/// Where a simulated host's bundles come from.
struct bundle_environment {
  std::string node;
  const scenario& what;
  virtual_process& process;
  contents& all;
  host_disk& disk;
};

/// A reader of the models on a host's disk. Where that has a speed, or a model
/// travels, its weights come chunk by chunk; else a model has none, and is
/// there when it is opened.
std::shared_ptr<bundle_reader>
make_simulated_reader(bundle_environment environment);

/// What a host keeps on its disk of models that came from elsewhere.
std::shared_ptr<bundle_keeper>
make_simulated_keeper(bundle_environment environment);

} // namespace millrace::simulator
