// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/kept_log.hpp"

#include <filesystem>

#include "runtime/bytes.hpp"
#include "runtime/log.hpp"
#include "runtime/random.hpp"
#include "runtime/store/little_endian.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

/// Limits for each half second: samples, and other lines. Further lines are
/// only counted.
constexpr size_t most_samples = 10;
constexpr size_t most_kept = 10'000;
constexpr milliseconds moment{500};
constexpr size_t chain_key_bytes = 32;

class journaled_log : public kept_log {
public:
  explicit journaled_log(std::unique_ptr<audit_journal> to)
    : to_(std::move(to)) {
    thread_->repeat(moment, [this] { write(); });
  }

  ~journaled_log() override {
    thread_
      .reset(); // the thread has put back the lines that it could not write
    write();
  }

  void keep(std::string line) override {
    add(std::move(line), kept_, most_kept);
  }

  void sample(std::string line) override {
    add(std::move(line), samples_, most_samples);
  }

private:
  void add(std::string line, size_t& count, size_t most) {
    std::lock_guard guard{mutex_};
    if (count++ < most)
      waiting_.push_back(std::move(line));
    else
      ++more_;
  }

  void write() {
    std::vector<std::string> lines;
    size_t more = 0;
    {
      std::lock_guard guard{mutex_};
      lines.swap(waiting_);
      more = std::exchange(more_, 0);
      kept_ = samples_ = 0;
    }
    if (more > 0)
      lines.push_back(wall_time() + " " + std::to_string(more)
                      + " more that are not listed");
    if (lines.empty())
      return;
    std::lock_guard guard{writing_};
    auto done = to_->append(lines);
    // Once per failure: the event log stores this event as well.
    if (!done && !failing_)
      log_event(log_level::error, "store", "lines_not_kept",
                {{"lines", lines.size()}, {"error", done.failure().text}});
    failing_ = !done;
    if (!failing_)
      return;
    if (more > 0)
      lines.pop_back();
    put_back(std::move(lines), more);
  }

  /// Queues lines again, before newer ones. Lines that the disk stored in spite
  /// of the error appear twice then.
  void put_back(std::vector<std::string> lines, size_t more) {
    std::lock_guard guard{mutex_};
    more_ += more;
    std::move(waiting_.begin(), waiting_.end(), std::back_inserter(lines));
    if (lines.size() > most_kept) {
      more_ += lines.size() - most_kept;
      lines.resize(most_kept);
    }
    waiting_ = std::move(lines);
  }

  std::mutex mutex_; // guards the members below
  std::vector<std::string> waiting_;
  size_t kept_ = 0;
  size_t samples_ = 0;
  size_t more_ = 0;
  std::mutex writing_; // guards the members below
  std::unique_ptr<audit_journal> to_;
  bool failing_ = false;
  std::unique_ptr<worker_thread> thread_ =
    std::make_unique<worker_thread>("kept lines");
};

} // namespace

std::string audit_directory(const std::string& data) {
  return data + "/audit";
}

std::string event_directory(const std::string& data) {
  return data + "/events";
}

namespace {

/// Reads the key of a log's chain; creates a missing key.
result<std::string> own_chain_key(disk& where) {
  auto found = where.read(chain_key_file, chain_key_bytes);
  if (!found)
    return found.failure();
  if (*found && (*found)->size() == chain_key_bytes)
    return std::move(**found);
  std::string key;
  while (key.size() < chain_key_bytes)
    put_number(key, entropy());
  auto done = write_whole(where, chain_key_file, key);
  if (done)
    done = where.sync_names();
  return done ? result<std::string>{std::move(key)} : done.failure();
}

} // namespace

result<std::unique_ptr<kept_log>> open_kept_log(std::unique_ptr<disk> where,
                                                size_t part_max) {
  auto key = own_chain_key(*where);
  if (!key)
    return key.failure();
  auto journal =
    audit_journal::open(std::move(where), part_max, std::move(*key));
  if (!journal)
    return journal.failure();
  return std::unique_ptr<kept_log>{
    std::make_unique<journaled_log>(std::move(*journal))};
}

namespace {

result<kept_lines> read_parts(const std::string& directory) {
  std::vector<std::string> parts;
  for (int i = audit_parts; i >= 0; --i) {
    auto path = directory + "/" + audit_part(i);
    std::error_code none;
    if (!std::filesystem::exists(path, none))
      continue;
    auto text = read_file(path, 4 * audit_part_max);
    if (!text)
      return text.failure();
    parts.push_back(std::move(*text));
  }
  if (parts.empty())
    return error{ec::unavailable,
                 directory + ": has no log (expected a node's data directory)",
                 {}};
  kept_lines out;
  auto key = read_file(directory + "/" + chain_key_file, chain_key_bytes);
  out.wrong = read_audit(parts, out.lines, key ? *key : "");
  if (!key)
    out.wrong =
      key.failure().text
      + ": the key of the chain is needed to detect changed or removed lines";
  return out;
}

} // namespace

result<kept_lines> read_kept_lines(const std::string& directory) {
  auto out = read_parts(directory);
  // A part begun during the read looks like a missing part: read again.
  return out && !out->wrong.empty() ? read_parts(directory) : std::move(out);
}

} // namespace millrace
