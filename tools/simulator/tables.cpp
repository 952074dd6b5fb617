// SPDX-License-Identifier: Apache-2.0
#include "simulator/tables.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace millrace::simulator {

namespace {

/// A file that is written and found to be written.
template <class F>
result<void> write_file(const std::string& path, F f) {
  std::ofstream out{path};
  f(out);
  out.close();
  if (!out)
    return error{ec::unavailable,
                 path + ": cannot be written: " + std::strerror(errno),
                 {}};
  return {};
}

/// As RFC 4180 has it.
std::string quoted(const std::string& x) {
  if (x.find_first_of(",\"\n") == std::string::npos)
    return x;
  std::string out = "\"";
  for (auto c : x)
    out += c == '"' ? std::string{"\"\""} : std::string{c};
  return out + "\"";
}

/// Nothing where there is no such point in time.
std::string time_or_none(std::optional<microseconds> x) {
  return x ? std::to_string(x->count()) : "";
}

} // namespace

result<void> write_tables(const loaded_scenario& what, const record& run,
                          const std::string& directory) {
  auto& names = run.names;
  auto requests = [&](std::ostream& out) {
    out << "id,part,function,model,sent_us,answered_us,latency_us,queue_us,"
           "execute_us,batch,replica,status,in_slo,gathered_us,interference_us,"
           "transfer_us\n";
    uint64_t id = 0;
    for (auto& x : run.requests) {
      auto took = x.ended - x.sent;
      auto in_slo = x.status == ec::ok && took <= slo_of(what, run, x);
      out << ++id << ',' << x.part << ',' << x.function << ',' << names[x.model]
          << ',' << x.sent.count() << ','
          << (x.status ? std::to_string(x.ended.count()) : "") << ','
          << (x.status ? std::to_string(took.count()) : "") << ','
          << x.queue.count() << ',' << x.execute.count() << ',' << x.batch
          << ',' << names[x.replica] << ',' << outcome_of(x) << ',' << in_slo
          << ',' << x.gathered.count() << ',' << x.interference.count() << ','
          << (x.status == ec::ok
                ? std::to_string((took - x.queue - x.execute).count())
                : "")
          << '\n';
    }
  };
  auto batches = [&](std::ostream& out) {
    out << "device,model,requests,started_us,ended_us,ok,batch,replica,stage,"
           "arrived_us\n";
    for (auto& x : run.batches)
      out << names[x.device] << ',' << names[x.model] << ',' << x.requests
          << ',' << x.started.count() << ',' << x.ended.count() << ',' << x.ok
          << ',' << x.id << ',' << x.replica << ',' << x.first_layer << '-'
          << x.last_layer << ',' << x.arrived.count() << '\n';
  };
  auto replicas = [&](std::ostream& out) {
    out << "device,model,source,begun_us,ready_us,ended_us\n";
    for (auto& x : run.replicas)
      out << names[x.device] << ',' << names[x.model] << ',' << x.source << ','
          << x.begun.count() << ',' << time_or_none(x.ready) << ','
          << time_or_none(x.ended) << '\n';
  };
  auto events = [&](std::ostream& out) {
    out << "at_us,level,event\n";
    for (auto& x : run.events)
      out << x.at.count() << ',' << to_string(x.level) << ',' << quoted(x.what)
          << '\n';
  };
  auto file = [&](const char* name) { return directory + "/" + name; };
  if (what.spec.record.requests)
    if (auto done = write_file(file("requests.csv"), requests); !done)
      return done;
  if (auto done = write_file(file("batches.csv"), batches); !done)
    return done;
  if (auto done = write_file(file("replicas.csv"), replicas); !done)
    return done;
  if (what.spec.record.events)
    if (auto done = write_file(file("events.csv"), events); !done)
      return done;
  return {};
}

} // namespace millrace::simulator
