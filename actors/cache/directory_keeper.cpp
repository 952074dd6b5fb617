// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/cache.hpp"
#include "models/bundle_directory.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

class directory_keeper : public bundle_keeper {
public:
  directory_keeper(std::string directory, memory_maker memory)
    : bundles_(std::move(directory)),
      memory_(std::move(memory)),
      thread_("keeper", thread_priority::least) {}

  void list(listed done) override {
    thread_.post([this, done = std::move(done)] {
      kept_list out;
      auto found = bundles_.list();
      out.broken = found.broken;
      for (auto& x : found.good) {
        auto info = describe(x.info, {});
        info.content = x.content;
        out.bundles.push_back({std::move(info), to_us(x.idle)});
      }
      done(std::move(out));
    });
  }

  void open(const std::string& content, verify how,
            bundle_reader::opened done) override {
    opener_.post([this, content, how, done = std::move(done)] {
      auto x = bundles_.open(content, how, memory_);
      if (!x && x.failure().code == ec::conflict) // another process reads it
        x = bundles_.open(content, verify::all_but_weights);
      if (!x)
        return done(x.failure());
      auto info = describe(*x, {});
      done(fetched{std::make_shared<bundle>(std::move(*x)), std::move(info),
                   "disk"});
    });
  }

  void keep(std::shared_ptr<const bundle> opened, kept done) override {
    thread_.post([this, x = std::move(opened), done = std::move(done)] {
      done(bundles_.keep(describe(*x, {}).content, *x));
    });
  }

  void drop(const std::string& content) override {
    thread_.post([this, content] { bundles_.drop(content); });
  }

  bool is_its_own(const std::string& directory) const override {
    return bundles_.is_one(directory);
  }

private:
  bundle_directory bundles_;
  memory_maker memory_;
  worker_thread thread_; ///< writes and drops bundles
  /// Opens bundles: an open does not wait for writes.
  worker_thread opener_{"opener"};
};

} // namespace

std::unique_ptr<bundle_keeper> keep_in_directory(std::string directory,
                                                 memory_maker memory) {
  return std::make_unique<directory_keeper>(std::move(directory),
                                            std::move(memory));
}

} // namespace millrace
