// SPDX-License-Identifier: Apache-2.0
#include "simulator/gnuplot.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/units.hpp"

namespace millrace::simulator {

namespace {

constexpr auto settings = "set terminal svg noenhanced size 900,480 font "
                          "'sans-serif,13' background 'white'\n"
                          "set key outside right top\n"
                          "set grid\n"
                          "set yrange [0:*]\n"
                          "set autoscale xfix\n"
                          "set offsets 0,0,graph 0.05,0\n";

} // namespace

plot::plot(const std::string& file, const std::string& title,
           const std::string& x_label, const std::string& y_label) {
  head_ << "\nset output '" << file << "'\nset title '" << title
        << "'\nset xlabel '" << x_label << "'\nset ylabel '" << y_label
        << "'\n";
}

void plot::line(const std::string& name, const std::vector<double>& xs,
                const std::vector<double>& ys, const char* style) {
  auto block = "$d" + std::to_string(lines_++);
  data_ << block << " << EOD\n";
  for (size_t i = 0; i < xs.size(); ++i)
    data_ << format_number(xs[i]) << ' ' << format_number(ys[i]) << '\n';
  data_ << "EOD\n";
  curves_ << (lines_ > 1 ? ", " : "plot ") << block << " with " << style
          << " title '" << name << "'";
}

void plot::distribution(const std::string& name,
                        const std::vector<double>& values) {
  if (values.empty())
    return;
  std::vector<double> xs{values.front()}, ys{0};
  auto n = std::min(values.size(), most_points);
  for (size_t i = 1; i <= n; ++i) {
    ys.push_back(static_cast<double>(i) / static_cast<double>(n));
    xs.push_back(values[i * values.size() / n - 1]);
  }
  line(name, xs, ys);
}

std::string plot::text() const {
  return lines_ == 0 ? "" : head_.str() + data_.str() + curves_.str() + "\n";
}

result<void> run_gnuplot(const std::string& directory, const std::string& file,
                         const std::string& script) {
  auto path = directory + "/" + file;
  std::ofstream out{path};
  out << "# Input of the plots in this folder: gnuplot " << file << '\n'
      << settings << script;
  out.close();
  if (!out)
    return error{ec::unavailable,
                 path + ": cannot be written: " + std::strerror(errno),
                 {}};
  auto log = path + ".log";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  std::string program = "gnuplot", name = file;
  char* argv[] = {program.data(), name.data(), nullptr};
  pid_t pid = 0;
  auto failed =
    ::posix_spawnp(&pid, "gnuplot", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    return error{ec::unavailable,
                 "gnuplot cannot be run (" + std::string{std::strerror(failed)}
                   + "): no plots; install Debian's package"
                     " gnuplot-nox",
                 {}};
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status != 0)
    return error{
      ec::unavailable, "gnuplot failed; its output is in " + log, {}};
  ::unlink(log.c_str());
  return {};
}

} // namespace millrace::simulator
