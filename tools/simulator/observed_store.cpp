// SPDX-License-Identifier: Apache-2.0
#include "simulator/observed_store.hpp"

#include <utility>

namespace millrace::simulator {

namespace {

class observed_store : public store {
public:
  observed_store(std::unique_ptr<store> inner, std::string node,
                 watcher& seen_by)
    : inner_(std::move(inner)),
      node_(std::move(node)),
      seen_by_(seen_by) {}

  void load(std::string table, loaded done) override {
    inner_->load(std::move(table), std::move(done));
  }

  void put(std::string table, std::string key, std::string value,
           uint64_t expected, written done) override {
    stored_row row{key, value, expected + 1};
    seen_by_.on_store({node_, table, row}, store_event::asked);
    inner_->put(table, std::move(key), std::move(value), expected,
                [this, table, row = std::move(row),
                 done = std::move(done)](result<uint64_t> version) {
                  auto how = version ? store_event::told
                             : version.failure().code == ec::unavailable
                               ? store_event::unsure
                               : store_event::refused;
                  seen_by_.on_store({node_, table, row}, how);
                  done(std::move(version));
                });
  }

private:
  std::unique_ptr<store> inner_;
  std::string node_;
  watcher& seen_by_;
};

} // namespace

std::unique_ptr<store> observe_store(std::unique_ptr<store> inner,
                                     std::string node, watcher& seen_by) {
  return std::make_unique<observed_store>(std::move(inner), std::move(node),
                                          seen_by);
}

} // namespace millrace::simulator
