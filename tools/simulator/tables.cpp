// SPDX-License-Identifier: Apache-2.0
#include "simulator/tables.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "runtime/units.hpp"
#include "simulator/replica_counts.hpp"

namespace millrace::simulator {

namespace {

/// Writes a file and checks that it was written.
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

/// Quotes a text as in RFC 4180.
std::string quoted(const std::string& x) {
  if (x.find_first_of(",\"\n") == std::string::npos)
    return x;
  std::string out = "\"";
  for (auto c : x)
    out += c == '"' ? std::string{"\"\""} : std::string{c};
  return out + "\"";
}

/// Empty without a time.
std::string time_or_none(std::optional<microseconds> x) {
  return x ? std::to_string(x->count()) : "";
}

void write_requests(const loaded_scenario& what, const record& run,
                    std::ostream& out) {
  auto& names = run.names;
  out << "id,part,function,model,sent_us,answered_us,latency_us,queue_us,"
         "execute_us,batch,replica,status,in_slo,gathered_us,interference_us,"
         "transfer_us,slo_us\n";
  uint64_t id = 0;
  for (auto& x : run.requests) {
    auto took = x.ended - x.sent;
    auto slo = slo_of(what, run, x);
    auto in_slo = x.status == ec::ok && took <= slo;
    out << ++id << ',' << x.part << ',' << x.function << ',' << names[x.model]
        << ',' << x.sent.count() << ','
        << (x.status ? std::to_string(x.ended.count()) : "") << ','
        << (x.status ? std::to_string(took.count()) : "") << ','
        << x.queue.count() << ',' << x.execute.count() << ',' << x.batch << ','
        << names[x.replica] << ',' << outcome_of(x) << ',' << in_slo << ','
        << x.gathered.count() << ',' << x.interference.count() << ','
        << (x.status == ec::ok
              ? std::to_string((took - x.queue - x.execute).count())
              : "")
        << ',' << slo.count() << '\n';
  }
}

void write_batches(const loaded_scenario&, const record& run,
                   std::ostream& out) {
  auto& names = run.names;
  out << "device,model,requests,started_us,ended_us,ok,batch,replica,stage,"
         "arrived_us,lane\n";
  for (auto& x : run.batches)
    out << names[x.device] << ',' << names[x.model] << ',' << x.requests << ','
        << x.started.count() << ',' << x.ended.count() << ',' << x.ok << ','
        << x.id << ',' << x.replica << ',' << x.first_layer << '-'
        << x.last_layer << ',' << x.arrived.count() << ',' << x.lane << '\n';
}

void write_replicas(const loaded_scenario&, const record& run,
                    std::ostream& out) {
  auto& names = run.names;
  out << "device,model,source,begun_us,ready_us,ended_us,decided_us,fetch_us\n";
  for (auto& x : run.replicas)
    out << names[x.device] << ',' << names[x.model] << ',' << x.source << ','
        << time_or_none(x.starts() ? std::nullopt : std::optional{x.begun})
        << ',' << time_or_none(x.ready) << ',' << time_or_none(x.ended) << ','
        << time_or_none(x.decided) << ',' << x.fetch.count() << '\n';
}

void write_hosts(const loaded_scenario& what, const record& run,
                 std::ostream& out) {
  out << "node,up_us,price\n";
  for (auto& [node, up] : run.reserved) {
    auto price = what.price.find(node);
    out << node << ',' << up.count() << ','
        << format_number(price == what.price.end() ? 0 : price->second) << '\n';
  }
}

void write_machines(const loaded_scenario& what, const record& run,
                    std::ostream& out) {
  out << "machine,pool,price,requested_us,started_us,ready_us,draining_us,"
         "released_us,reserved_us,used_us\n";
  for (auto& x : run.leases) {
    auto price = what.price.find(x.machine);
    auto [reserved, used] = billed(x, run.length);
    out << x.machine << ',' << pool_of(what, x.machine) << ','
        << format_number(price == what.price.end() ? 0 : price->second) << ','
        << x.requested.count() << ',' << time_or_none(x.started) << ','
        << time_or_none(x.ready) << ',' << time_or_none(x.draining) << ','
        << time_or_none(x.released) << ',' << reserved.count() << ','
        << used.count() << '\n';
  }
}

void write_devices(const loaded_scenario& what, const record&,
                   std::ostream& out) {
  out << "device,kind\n";
  for (auto& [device, kind] : device_kinds(what))
    out << device << ',' << quoted(kind) << '\n';
}

void write_links(const loaded_scenario&, const record& run, std::ostream& out) {
  out << "link,bytes,room_bytes\n";
  for (auto& x : run.links)
    out << quoted(x.name) << ',' << format_number(x.bytes) << ','
        << format_number(x.room) << '\n';
}

void write_counts(const loaded_scenario&, const record& run,
                  std::ostream& out) {
  out << "at_us,model,wanted,reserved,ready\n";
  for (auto& x : replica_counts(run))
    out << x.at.count() << ',' << x.model << ',' << x.wanted << ','
        << x.reserved << ',' << x.ready << '\n';
}

void write_events(const loaded_scenario&, const record& run,
                  std::ostream& out) {
  out << "at_us,level,event\n";
  for (auto& x : run.events)
    out << x.at.count() << ',' << to_string(x.level) << ',' << quoted(x.what)
        << '\n';
}

} // namespace

result<void> write_tables(const loaded_scenario& what, const record& run,
                          const std::string& directory) {
  using writer = void (*)(const loaded_scenario&, const record&, std::ostream&);
  std::vector<std::pair<const char*, writer>> tables{
    {"batches.csv", write_batches},       {"replicas.csv", write_replicas},
    {"replica_counts.csv", write_counts}, {"hosts.csv", write_hosts},
    {"machines.csv", write_machines},     {"links.csv", write_links},
    {"devices.csv", write_devices}};
  if (what.spec.record.requests)
    tables.emplace_back("requests.csv", write_requests);
  if (what.spec.record.events)
    tables.emplace_back("events.csv", write_events);
  for (auto& [name, write] : tables) {
    auto fill = [&, write = write](std::ostream& out) {
      write(what, run, out);
    };
    if (auto done = write_file(directory + "/" + name, fill); !done)
      return done;
  }
  return {};
}

} // namespace millrace::simulator
