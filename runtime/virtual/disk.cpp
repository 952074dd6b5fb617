// SPDX-License-Identifier: Apache-2.0
#include "runtime/virtual/disk.hpp"

#include <algorithm>

#include "runtime/text.hpp"

namespace millrace {

namespace {

class virtual_store : public store {
public:
  virtual_store(virtual_process& process, std::shared_ptr<virtual_disk> disk,
                microseconds takes)
    : process_(process),
      disk_(std::move(disk)),
      takes_(takes) {}

  void load(std::string table, loaded done) override {
    later([disk = disk_, table = std::move(table), done = std::move(done)] {
      std::vector<stored_row> rows;
      for (auto& [key, row] : (*disk)[table])
        rows.push_back(row);
      done(std::move(rows));
    });
  }

  void put(std::string table, std::string key, std::string value,
           uint64_t expected, written done) override {
    later([disk = disk_, table = std::move(table), key = std::move(key),
           value = std::move(value), expected, done = std::move(done)] {
      auto& rows = (*disk)[table];
      auto there = rows.find(key);
      auto version = there == rows.end() ? 0 : there->second.version;
      if (version != expected)
        return done(error{ec::conflict, "not at that version", {}});
      if (value.empty())
        rows.erase(key);
      else
        rows[key] = {key, value, expected + 1};
      done(expected + 1);
    });
  }

private:
  void later(action what) {
    auto& world = process_.world();
    world.at(world.now() + takes_, process_, std::move(what));
  }

  virtual_process& process_;
  std::shared_ptr<virtual_disk> disk_;
  microseconds takes_;
};

} // namespace

uint64_t virtual_disk::count_up(const std::string& table,
                                const std::string& key, uint64_t least) {
  auto& row = tables_[table][key];
  auto count = number_in<uint64_t>(row.value).value_or(0);
  count = std::max(count + 1, least);
  row = {key, std::to_string(count), row.version + 1};
  return count;
}

std::unique_ptr<store> open_virtual_store(virtual_process& process,
                                          std::shared_ptr<virtual_disk> disk,
                                          microseconds takes) {
  return std::make_unique<virtual_store>(process, std::move(disk), takes);
}

} // namespace millrace
