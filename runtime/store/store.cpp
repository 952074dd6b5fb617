// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/store.hpp"

#include "runtime/log.hpp"
#include "runtime/store/fact_journal.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

class journal_store : public store {
public:
  explicit journal_store(std::unique_ptr<fact_journal> facts)
    : facts_(std::move(facts)),
      thread_("store") {
    thread_.repeat(mend_pause, [this] { static_cast<void>(facts_->mend()); });
  }

  void load(std::string table, loaded done) override {
    thread_.post([this, table = std::move(table), done = std::move(done)] {
      done(facts_->rows(table));
    });
  }

  void put(std::string table, std::string key, std::string value,
           uint64_t expected, written done) override {
    thread_.post([=, this, done = std::move(done)] {
      auto version = facts_->stage(table, key, value, expected);
      if (version)
        if (auto synced = facts_->commit(); !synced)
          version = synced.failure();
      done(std::move(version));
    });
  }

private:
  std::unique_ptr<fact_journal> facts_;
  worker_thread
    thread_; // last member: the thread ends before the journal is destroyed
};

} // namespace

result<std::unique_ptr<store>> open_store(std::unique_ptr<disk> where) {
  auto facts = fact_journal::open(std::move(where), facts_file);
  if (!facts)
    return facts.failure();
  if (auto& text = (*facts)->mended(); !text.empty())
    log_event(log_level::warning, "store", "mended", {{"what", text}});
  return std::unique_ptr<store>{
    std::make_unique<journal_store>(std::move(*facts))};
}

} // namespace millrace
