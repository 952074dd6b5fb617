// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "millrace/experiment_cells.hpp"

namespace millrace {

/// Finished runs of an experiment in a file, a line of JSON each. A run counts
/// only for the text of the scenario, the options, the seed and the version of
/// the program that made it; files that the scenario names are not compared. A
/// line that was cut off by a crash counts as not written.
class experiment_ledger {
public:
  /// A ledger of no file: keeps nothing.
  experiment_ledger() = default;

  /// Reads the file, or begins a new one. `scenario` is the scenario's text.
  /// Errors: unavailable with the path; bad_request for a file that is no
  /// ledger.
  result<void> open(const std::string& path, const std::string& scenario);

  /// The summary of a finished run; nothing when there is none.
  std::optional<json> find(const experiment_cell& cell, uint64_t seed) const;

  /// Appends a finished run and has it written. From any thread. Errors:
  /// unavailable with the path.
  result<void> add(const std::string& name, const experiment_cell& cell,
                   uint64_t seed, const json& summary);

  /// Lines of other scenarios, options or programs, and cut ones.
  size_t other_lines() const { return other_lines_; }

  /// Adds the lines of runs that are not among these to other_lines().
  void count_others(const std::vector<experiment_cell>& cells,
                    const std::vector<uint64_t>& seeds);

private:
  std::string key_of(const experiment_cell& cell, uint64_t seed) const;

  std::string path_;
  std::string scenario_;
  std::map<std::string, json> finished_; ///< by key
  size_t other_lines_ = 0;
  std::mutex mutex_;
};

} // namespace millrace
