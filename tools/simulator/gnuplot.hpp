// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace::simulator {

/// More points of a curve than anybody can see.
constexpr size_t most_points = 600;

/// One picture: lines over a common axis, as a gnuplot script with its data in
/// it.
class plot {
public:
  plot(const std::string& file, const std::string& title, const std::string& x,
       const std::string& y);

  void line(const std::string& name, const std::vector<double>& xs,
            const std::vector<double>& ys, const char* style = "lines");

  /// A distribution function, of sorted values.
  void distribution(const std::string& name, const std::vector<double>& xs);

  /// "logscale x".
  void set(const std::string& x) { head_ << "set " << x << '\n'; }

  /// Empty without lines.
  std::string text() const;

private:
  std::ostringstream head_, data_, curves_;
  size_t lines_ = 0;
};

/// Writes a script (after the settings all pictures share) into a directory and
/// runs it there. Errors: unavailable when there is no gnuplot, or what it
/// says.
result<void> run_gnuplot(const std::string& directory, const std::string& file,
                         const std::string& script);

} // namespace millrace::simulator
