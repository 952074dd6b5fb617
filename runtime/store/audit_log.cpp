// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/audit_log.hpp"

#include "runtime/log.hpp"
#include "runtime/store/audit_journal.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

/// Refusals kept of each moment, and orders that wait to be written; more are
/// counted.
constexpr size_t most_refusals = 10;
constexpr size_t most_orders = 10'000;
constexpr milliseconds moment{500};

class journaled_audit : public audit_log {
public:
  explicit journaled_audit(std::unique_ptr<audit_journal> to)
    : to_(std::move(to)) {
    thread_.repeat(moment, [this] { write(); });
  }

  ~journaled_audit() override { write(); }

  void order(std::string line) override {
    keep(std::move(line), orders_, most_orders);
  }

  void refusal(std::string line) override {
    keep(std::move(line), refusals_, most_refusals);
  }

private:
  void keep(std::string line, size_t& count, size_t most) {
    line = wall_time() + " " + std::move(line);
    std::lock_guard guard{mutex_};
    if (count++ < most)
      waiting_.push_back(std::move(line));
    else
      ++more_;
  }

  void write() {
    std::vector<std::string> lines;
    {
      std::lock_guard guard{mutex_};
      lines.swap(waiting_);
      if (more_ > 0)
        lines.push_back(wall_time() + " " + std::to_string(more_)
                        + " more that are not listed");
      orders_ = refusals_ = more_ = 0;
    }
    if (lines.empty())
      return;
    std::lock_guard guard{writing_};
    if (auto done = to_->append(lines); !done)
      log_event(log_level::error, "store", "audit_failed",
                {{"lines", lines.size()}, {"error", done.failure().text}});
  }

  std::mutex mutex_; // guards what follows
  std::vector<std::string> waiting_;
  size_t orders_ = 0;
  size_t refusals_ = 0;
  size_t more_ = 0;
  std::mutex writing_; // guards to_
  std::unique_ptr<audit_journal> to_;
  worker_thread thread_{"audit"};
};

} // namespace

std::string audit_directory(const std::string& data) {
  return data + "/audit";
}

result<std::unique_ptr<audit_log>> open_audit_log(const std::string& data) {
  auto where = open_directory(audit_directory(data));
  if (!where)
    return where.failure();
  auto journal = audit_journal::open(std::move(*where));
  if (!journal)
    return journal.failure();
  return std::unique_ptr<audit_log>{
    std::make_unique<journaled_audit>(std::move(*journal))};
}

} // namespace millrace
