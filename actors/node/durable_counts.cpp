// SPDX-License-Identifier: Apache-2.0
#include "actors/node/durable_counts.hpp"

#include <future>

#include "models/device/crash_journal.hpp"
#include "runtime/log.hpp"
#include "runtime/store/facts.hpp"

namespace millrace {

namespace {

result<std::vector<stored_row>> load_now(store& facts,
                                         const std::string& table) {
  std::promise<result<std::vector<stored_row>>> read;
  facts.load(table, [&](auto x) { read.set_value(std::move(x)); });
  return read.get_future().get();
}

} // namespace

result<uint64_t> count_up(store& facts, const std::string& table,
                          const std::string& key, uint64_t least) {
  auto rows = load_now(facts, table);
  if (!rows)
    return rows.failure();
  stored_row last;
  for (auto& row : *rows)
    if (row.key == key)
      last = row;
  auto count = next_count(last.value, least);
  std::promise<result<uint64_t>> write;
  facts.put(table, key, std::to_string(count), last.version,
            [&](auto x) { write.set_value(std::move(x)); });
  if (auto done = write.get_future().get(); !done)
    return done.failure();
  return count;
}

result<crash_counts> count_crashes(const std::string& journal, store& facts) {
  auto culprits = open_crash_journal(journal);
  if (!culprits)
    return culprits.failure();
  for (auto& model : *culprits) {
    auto count = count_up(facts, crashes_table, model);
    if (!count)
      return count.failure();
    log_event(log_level::error, "node", "crashed_in_model",
              {{"model", model}, {"crashes", *count}});
  }
  auto rows = load_now(facts, crashes_table);
  if (!rows)
    return rows.failure();
  crash_counts out;
  for (auto& row : *rows)
    out[row.key] = next_count(row.value, 0) - 1;
  return out;
}

void report_crashes(const crash_counts& counts, health& state) {
  for (auto& [model, n] : counts) {
    if (n < crashes_max)
      continue;
    state.set_trouble("crashes of " + model,
                      "model " + model + " crashed this node "
                        + std::to_string(n)
                        + " times: its code no longer runs in threads of the"
                          " node; register another version, or run"
                          " 'millrace store forgive DIRECTORY "
                        + model + "' while the node is stopped");
  }
}

} // namespace millrace
