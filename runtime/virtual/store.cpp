// SPDX-License-Identifier: Apache-2.0
#include "runtime/virtual/store.hpp"

#include <deque>
#include <utility>

namespace millrace {

namespace {

class virtual_store : public store {
public:
  virtual_store(virtual_process& process, std::unique_ptr<fact_journal> facts,
                microseconds takes)
    : work_(std::make_shared<work>(process, std::move(facts), takes)) {
    work_->mend_later();
  }

  void load(std::string table, loaded done) override {
    work_->add({[w = work_.get(), table = std::move(table)] {
                  w->rows = w->facts->rows(table);
                  return true;
                },
                [w = work_.get(), done = std::move(done)] {
                  done(std::exchange(w->rows, {}));
                }});
  }

  void put(std::string table, std::string key, std::string value,
           uint64_t expected, written done) override {
    auto* w = work_.get();
    work_->add({[=] {
                  w->version = w->facts->stage(table, key, value, expected);
                  return static_cast<bool>(w->version);
                },
                [w, done = std::move(done)] {
                  if (w->version)
                    if (auto synced = w->facts->commit(); !synced)
                      w->version = synced.failure();
                  done(std::move(w->version));
                }});
  }

private:
  /// Runs steps one after the other, as a thread would. The object lives until
  /// the last step has run; the end of the process drops the queued steps.
  struct work : std::enable_shared_from_this<work> {
    struct step {
      std::function<bool()> begin; ///< returns whether to wait for the disk
      std::function<void()> end;
    };

    work(virtual_process& p, std::unique_ptr<fact_journal> f, microseconds t)
      : process(p),
        facts(std::move(f)),
        takes(t) {}

    void add(step x) {
      steps.push_back(std::move(x));
      if (steps.size() == 1)
        begin();
    }

    void begin() {
      auto waits = steps.front().begin();
      auto& world = process.world();
      world.at(world.now() + (waits ? takes : 0us), process,
               [me = shared_from_this()] {
                 me->steps.front().end();
                 me->steps.pop_front();
                 if (!me->steps.empty())
                   me->begin();
               });
    }

    void mend_later() {
      auto& world = process.world();
      world.at(world.now() + mend_pause, process, [me = shared_from_this()] {
        me->add({[w = me.get()] {
                   static_cast<void>(w->facts->mend());
                   return false;
                 },
                 [] {}});
        me->mend_later();
      });
    }

    virtual_process& process;
    std::unique_ptr<fact_journal> facts;
    microseconds takes;
    std::deque<step> steps; ///< the first step is running
    std::vector<stored_row> rows;
    result<uint64_t> version{0};
  };

  std::shared_ptr<work> work_;
};

} // namespace

std::unique_ptr<store> make_virtual_store(virtual_process& process,
                                          std::unique_ptr<fact_journal> facts,
                                          microseconds takes) {
  return std::make_unique<virtual_store>(process, std::move(facts), takes);
}

} // namespace millrace
