// SPDX-License-Identifier: Apache-2.0
#include "millrace/experiment_ledger.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "runtime/hash.hpp"

namespace millrace {

result<void> experiment_ledger::open(const std::string& path,
                                     const std::string& scenario) {
  path_ = path;
  scenario_ = scenario;
  std::error_code failed;
  auto size = std::filesystem::file_size(path, failed);
  if (failed) { // a new ledger
    std::ofstream out{path};
    if (!out)
      return error{ec::unavailable,
                   path + ": cannot be written: " + std::strerror(errno),
                   {}};
    return {};
  }
  std::ifstream in{path, std::ios::binary};
  std::string text;
  size_t whole = 0; // bytes of whole lines
  while (std::getline(in, text) && !in.eof()) {
    whole += text.size() + 1;
    auto line = json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("key") || !line["key"].is_string()
        || !line.contains("summary"))
      return error{
        ec::bad_request, path + ": is no ledger of millrace reproduce", {}};
    finished_[line["key"].get<std::string>()] = std::move(line["summary"]);
  }
  in.close();
  if (whole == size)
    return {};
  // Drops a line that was cut when the program ended.
  if (whole == 0 && text.substr(0, 1) != "{")
    return error{
      ec::bad_request, path + ": is no ledger of millrace reproduce", {}};
  ++other_lines_;
  std::filesystem::resize_file(path, whole, failed);
  if (failed)
    return error{
      ec::unavailable, path + ": cannot be written: " + failed.message(), {}};
  return {};
}

std::string experiment_ledger::key_of(const experiment_cell& cell,
                                      uint64_t seed) const {
  json all{MILLRACE_VERSION, scenario_, cell.set, seed};
  auto text = all.dump();
  return sha256_hex(std::as_bytes(std::span{text})).substr(0, 32);
}

std::optional<json> experiment_ledger::find(const experiment_cell& cell,
                                            uint64_t seed) const {
  if (path_.empty())
    return std::nullopt;
  auto i = finished_.find(key_of(cell, seed));
  return i == finished_.end() ? std::nullopt : std::optional{i->second};
}

void experiment_ledger::count_others(const std::vector<experiment_cell>& cells,
                                     const std::vector<uint64_t>& seeds) {
  std::set<std::string> known;
  for (auto& cell : cells)
    for (auto seed : seeds)
      known.insert(key_of(cell, seed));
  for (auto& [key, summary] : finished_)
    other_lines_ += !known.contains(key);
}

result<void> experiment_ledger::add(const std::string& name,
                                    const experiment_cell& cell, uint64_t seed,
                                    const json& summary) {
  if (path_.empty())
    return {};
  json line{{"cell", name},
            {"seed", seed},
            {"key", key_of(cell, seed)},
            {"summary", summary}};
  std::lock_guard guard{mutex_};
  std::ofstream out{path_, std::ios::app};
  out << line.dump() + "\n";
  out.close();
  if (!out)
    return error{ec::unavailable,
                 path_ + ": cannot be written: " + std::strerror(errno),
                 {}};
  return {};
}

} // namespace millrace
