// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace::simulator {

/// Limit for the points of a curve, about the resolution of a screen.
constexpr size_t most_points = 600;

/// A plot: lines over a common axis, as a gnuplot script with its data.
class plot {
public:
  plot(const std::string& file, const std::string& title,
       const std::string& x_label, const std::string& y_label);

  void line(const std::string& name, const std::vector<double>& xs,
            const std::vector<double>& ys, const char* style = "lines");

  /// A distribution function; `xs` must be sorted.
  void distribution(const std::string& name, const std::vector<double>& xs);

  /// Adds a setting, such as "logscale x".
  void set(const std::string& setting) { head_ << "set " << setting << '\n'; }

  /// The script; empty without lines.
  std::string text() const;

private:
  std::ostringstream head_, data_, curves_;
  size_t lines_ = 0;
};

/// Writes a script (after the settings common to all plots) into a directory
/// and runs it. Errors: unavailable without gnuplot, or with the file of its
/// error output.
result<void> run_gnuplot(const std::string& directory, const std::string& file,
                         const std::string& script);

} // namespace millrace::simulator
