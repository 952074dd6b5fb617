// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "simulator/tables.hpp"
#include "trace/trace_file.hpp"

namespace millrace::simulator {

namespace {

constexpr size_t clients_pid = 1;

void write_requests(const record& run, size_t most, trace_file& out) {
  trace_rows tracks;
  for (size_t i = 0; i < std::min(most, run.requests.size()); ++i) {
    auto& x = run.requests[i];
    auto end = x.ended < 0us ? run.length : x.ended;
    auto tid = 1 + tracks.take(x.sent, end);
    out.slice(clients_pid, tid, run.names[x.model], x.sent, end,
              "\"id\":" + std::to_string(i + 1) + ",\"status\":\""
                + outcome_of(x) + "\",\"batch\":" + std::to_string(x.batch)
                + ",\"replica\":\"" + run.names[x.replica] + "\"");
    if (x.execute == 0us)
      continue;
    auto starts = std::min(end, x.sent + x.queue);
    out.slice(clients_pid, tid, "waits", x.sent, starts);
    out.flow(trace_file::arrow::begins, clients_pid, tid, i + 1, x.sent);
  }
  for (size_t t = 1; t <= tracks.used(); ++t)
    out.name_thread(clients_pid, t, "open " + std::to_string(t));
}

/// The end of the last of the first `most` requests; never if `most` is 0 or
/// includes all requests.
microseconds end_of_first(const record& run, size_t most) {
  if (most == 0 || most >= run.requests.size())
    return microseconds::max();
  microseconds out{0};
  for (size_t i = 0; i < most; ++i) {
    auto ended = run.requests[i].ended;
    out = std::max(out, ended < 0us ? run.length : ended);
  }
  return out;
}

/// The last batch of each request, which computed its answer.
std::vector<const batch_row*> last_batches(const record& run, size_t most) {
  std::vector<const batch_row*> out(std::min(most, run.requests.size()) + 1);
  for (auto& x : run.batches)
    for (size_t k = 0; k < x.requests; ++k)
      if (auto id = run.batch_requests[x.first + k];
          id != 0 && id < out.size() && run.requests[id - 1].execute > 0us)
        out[id] = &x;
  return out;
}

} // namespace

result<void> write_trace(const loaded_scenario& what, const record& run,
                         const std::string& path) {
  std::ofstream file{path};
  {
    trace_file out{file};
    auto most = what.spec.record.trace_requests;
    out.name_process(clients_pid, "requests");
    write_requests(run, most, out);
    std::map<std::string, size_t> nodes;
    std::map<uint32_t, std::pair<size_t, size_t>> devices; // pid, tid
    auto until = end_of_first(run, most);
    auto answered_by = last_batches(run, most);
    for (auto& x : run.batches) {
      if (x.started > until)
        continue;
      auto [i, fresh] = devices.try_emplace(x.device);
      if (fresh) {
        auto& name = run.names[x.device];
        auto slash = name.find('/');
        auto node = name.substr(0, slash);
        auto [n, new_node] =
          nodes.try_emplace(node, clients_pid + 1 + nodes.size());
        if (new_node)
          out.name_process(n->second, node);
        i->second = {n->second, 100 * devices.size()};
        out.name_thread(n->second, i->second.second, name.substr(slash + 1));
      }
      auto [pid, tid] = i->second;
      out.slice(pid, tid + x.lane, run.names[x.model], x.started, x.ended,
                "\"requests\":" + std::to_string(x.requests));
      for (size_t k = 0; k < x.requests; ++k)
        if (auto id = run.batch_requests[x.first + k];
            id != 0 && id < answered_by.size() && answered_by[id] == &x)
          out.flow(trace_file::arrow::ends, pid, tid + x.lane, id, x.started);
    }
    for (auto& x : run.events)
      if (x.what.starts_with("fault."))
        out.instant(clients_pid, 0, x.what.substr(0, x.what.find('"')), x.at);
  }
  file.close();
  if (!file)
    return error{ec::unavailable,
                 path + ": cannot be written: " + std::strerror(errno),
                 {}};
  return {};
}

} // namespace millrace::simulator
