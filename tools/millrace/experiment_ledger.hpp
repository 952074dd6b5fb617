// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "millrace/experiment_cells.hpp"

namespace millrace {

/// A file of an experiment's finished runs, one line of JSON each. A run is
/// found only for the same text of the scenario, options, seed and program
/// version; files named in the scenario are not compared. A line cut off by a
/// crash is dropped.
class experiment_ledger {
public:
  /// A ledger without a file: stores nothing.
  experiment_ledger() = default;

  /// Reads the file, or creates it. `scenario` is the scenario's text. Errors:
  /// unavailable with the path; bad_request for a file that is no ledger.
  result<void> open(const std::string& path, const std::string& scenario);

  /// The summary of a finished run; empty if not found.
  std::optional<json> find(const experiment_cell& cell, uint64_t seed) const;

  /// Appends a finished run and flushes the file. Thread-safe. Errors:
  /// unavailable with the path.
  result<void> add(const std::string& name, const experiment_cell& cell,
                   uint64_t seed, const json& summary);

  /// Number of lines of other scenarios, options or programs, and of cut lines.
  size_t other_lines() const { return other_lines_; }

  /// Adds the lines of runs outside these cells and seeds to other_lines().
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
