// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/device/device.hpp"

namespace millrace {

/// Notes which model each thread of this process runs, in a mapped file, so
/// that the next start knows which model ended this one: by SIGSEGV, SIGBUS,
/// SIGILL, SIGFPE or SIGABRT. A process that is killed names none.
///
/// Returns the models that the file names: one, or all that ran when a thread
/// crashed that ran none (an operator's own thread). Called once in a process,
/// before a model is loaded. Errors: unavailable, with the
/// system's reason.
result<std::vector<std::string>> open_crash_journal(const std::string& file);

/// While it lives, the calling thread runs code of a model. Costs some 10 ns;
/// nothing without a journal.
class running_model {
public:
  explicit running_model(std::string_view name);
  ~running_model();
  running_model(const running_model&) = delete;
  running_model& operator=(const running_model&) = delete;
};

/// Wraps a stage, so that the journal has the model during each pass.
std::unique_ptr<loaded_stage> noted_stage(std::unique_ptr<loaded_stage> stage,
                                          std::string model);

/// A model's name in the journal: "digits-small.2", name and version.
std::string name_in_journal(const manifest& x);

/// Whether a node may run a model in its own threads: it crashed there fewer
/// than crashes_max times. Errors: unavailable, with the count.
result<void> check_crashes(const crash_counts& counts, const manifest& of);

} // namespace millrace
