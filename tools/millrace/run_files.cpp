// SPDX-License-Identifier: Apache-2.0
#include "millrace/run_files.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "millrace/print.hpp"

namespace millrace {

result<void> make_run_directory(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed)
    return error{
      ec::bad_request, path + ": cannot be made: " + failed.message(), {}};
  if (access(path.c_str(), W_OK | X_OK) != 0)
    return error{ec::bad_request, path + ": cannot be written to", {}};
  return {};
}

void warn_of(const result<void>& drawn) {
  if (!drawn)
    std::fprintf(stderr, "warning: %s\n", drawn.failure().text.c_str());
}

result<void> write_run(const loaded_scenario& what,
                       const simulator::record& run,
                       const simulator::run_summary& found,
                       const std::string& directory) {
  // Remove files of an earlier run that this run may not write.
  std::error_code not_there;
  for (auto* name : {"requests.csv", "events.csv", "trace.json", "latency.svg",
                     "replicas.svg", "queues.svg", "requests.svg"})
    std::filesystem::remove(directory + "/" + name, not_there);
  if (auto done = write_tables(what, run, directory); !done)
    return done;
  if (what.spec.record.trace)
    if (auto done = write_trace(what, run, directory + "/trace.json"); !done)
      return done;
  auto path = directory + "/summary.json";
  std::ofstream file{path};
  file << to_json(found).dump(2) << '\n';
  file.close();
  if (!file)
    return error{ec::unavailable, path + ": cannot be written", {}};
  warn_of(draw_plots(what, run, directory));
  return {};
}

} // namespace millrace
