// SPDX-License-Identifier: Apache-2.0
#include "millrace/progress.hpp"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "runtime/units.hpp"

namespace millrace {

progress_bar::progress_bar(std::string title, bool wanted)
  : title_(std::move(title)),
    wanted_(wanted && ::isatty(2) != 0),
    begun_(steady_now()) {
}

void progress_bar::show(double part, const std::string& note) {
  auto now = steady_now();
  if (!wanted_ || now - drawn_ < 100ms)
    return;
  drawn_ = now;
  part = std::clamp(part, 0.0, 1.0);
  constexpr int width = 30;
  auto full = static_cast<int>(part * width);
  std::string bar(static_cast<size_t>(full), '#');
  bar.resize(width, '.');
  auto took = std::chrono::duration<double>(now - begun_);
  auto left = part > 0.01 ? took * (1 - part) / part : took * 0;
  std::fprintf(
    stderr, "\r%s [%s] %3.0f %%  %s left %s\033[K", title_.c_str(), bar.c_str(),
    100 * part,
    format_duration(std::chrono::duration_cast<nanoseconds>(left)).c_str(),
    note.c_str());
}

void progress_bar::print_line(const std::string& text) {
  std::fprintf(stderr, "%s%s\n", wanted_ ? "\r\033[K" : "", text.c_str());
}

void progress_bar::done() {
  if (wanted_)
    std::fprintf(stderr, "\r\033[K");
}

} // namespace millrace
