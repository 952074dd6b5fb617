// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "config/scenario.hpp"
#include "models/bundle.hpp"

namespace millrace::simulator {

/// Bundles of simulated models that have bytes, so that hosts can give them to
/// each other. Each is made once.
class real_bundles {
public:
  std::shared_ptr<const bundle> get(const std::string& model, uint64_t version,
                                    const simulated_model& x);

private:
  std::map<std::pair<std::string, uint64_t>, std::shared_ptr<const bundle>>
    made_;
};

} // namespace millrace::simulator
