// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/device/device.hpp"

namespace millrace {

/// Records which model each thread of this process runs, in a mapped file, so
/// that after a crash the next start knows the model: on SIGSEGV, SIGBUS,
/// SIGILL, SIGFPE or SIGABRT. A killed process records none.
///
/// Returns the models of the last crash: one, or all running models when the
/// crashed thread ran none (an operator's own thread). Called once in a
/// process, before a model is loaded.
/// Errors: unavailable, with the system's reason.
result<std::vector<std::string>> open_crash_journal(const std::string& file);

/// During its lifetime, the calling thread runs code of a model. Costs some 10
/// ns; nothing without a journal.
class running_model {
public:
  explicit running_model(std::string_view name);
  ~running_model();
  running_model(const running_model&) = delete;
  running_model& operator=(const running_model&) = delete;
};

/// Wraps a stage, so that the journal records the model during each pass.
std::unique_ptr<loaded_stage> noted_stage(std::unique_ptr<loaded_stage> stage,
                                          std::string model);

/// A model's name in the journal: "digits-small.2", name and version.
std::string name_in_journal(const manifest& info);

/// Whether a node may run a model in its own threads: the model has crashed
/// fewer than crashes_max times there.
/// Errors: unavailable, with the count.
result<void> check_crashes(const crash_counts& counts, const manifest& of);

} // namespace millrace
