// SPDX-License-Identifier: Apache-2.0
#include "simulator/bundles.hpp"

#include <algorithm>
#include <map>

#include "models/travelling_bundle.hpp"
#include "simulator/model.hpp"

namespace millrace::simulator {

namespace {

/// Reads weights from a disk, chunk by chunk, while the weights are in use.
class disk_reads {
public:
  disk_reads(virtual_process& process, host_disk& disk)
    : process_(process),
      disk_(disk) {}

  /// Queues these layers' weights to be read after those queued before.
  void bring(const std::shared_ptr<const bundle>& x, layer_range layers) {
    auto& file = x->weights_file;
    if (!file || file->has({0, file->chunks()}))
      return;
    std::erase_if(reads_, [](auto& y) { return y.second.file.expired(); });
    auto& read = reads_[file.get()];
    if (!read.from) {
      read.file = file;
      read.asked.resize(file->chunks());
      read.from = disk_.open();
    }
    for (auto range : travelling::chunks_for(*x, layers.first, layers.last))
      for (auto i = range.first; i < range.last; ++i)
        if (!read.asked[i]) {
          read.asked[i] = true;
          bring(read, i);
        }
  }

private:
  struct read {
    std::weak_ptr<arriving_file> file;
    std::vector<bool> asked;
    /// null: reading takes no time
    std::unique_ptr<simulated_network::stream> from;
  };

  void bring(read& x, size_t chunk) {
    auto there = [file = x.file, chunk] {
      if (auto y = file.lock())
        static_cast<void>(y->verify(chunk)); // simulated chunks always verify
    };
    if (!x.from)
      return there();
    auto file = x.file.lock();
    auto begin = chunk * file->bytes_of_chunk();
    x.from->send(std::min(file->bytes_of_chunk(), file->bytes() - begin),
                 &process_, std::move(there));
  }

  virtual_process& process_;
  host_disk& disk_;
  std::map<const arriving_file*, read> reads_;
};

arriving_file::where place_for(verify how) {
  return how == verify::into_memory ? arriving_file::where::memory
                                    : arriving_file::where::disk;
}

class simulated_reader : public bundle_reader {
public:
  explicit simulated_reader(bundle_environment environment)
    : environment_(std::move(environment)),
      reads_(environment_.process, environment_.disk) {}

  void open(const std::string& model, uint64_t version, verify how,
            opened done) override {
    environment_.process.world().soon(environment_.process, [=, this] {
      auto i = environment_.what.bundles.find(model);
      if (i == environment_.what.bundles.end() || version == 0
          || version > i->second.versions || !is_here(i->second))
        return done(error{ec::unknown_model, "no bundle of " + model, {}});
      if (i->second.broken)
        return done(error{ec::bad_config, "a byte of the bundle is wrong", {}});
      done(fetched{find(model, version, i->second, how),
                   info_of(model, version, i->second), "disk"});
    });
  }

  void bring(std::shared_ptr<const bundle> opened, layer_range layers,
             transfer_rank) override {
    environment_.process.world().soon(
      environment_.process, [=, this] { reads_.bring(opened, layers); });
  }

  void watch(changed tell, broken) override {
    environment_.process.world().soon(environment_.process, [this, tell] {
      std::vector<model_info> out;
      for (auto& [name, x] : environment_.what.bundles)
        for (uint64_t version = 1; is_here(x) && version <= x.versions;
             ++version)
          out.push_back(info_of(name, version, x));
      tell({std::move(out)});
    });
  }

private:
  bool is_here(const simulated_model& x) const {
    return x.on.empty()
             ? x.at == bundle_place::host
             : std::count(x.on.begin(), x.on.end(), environment_.node) != 0;
  }

  /// Whether the model's chunks are simulated; otherwise the whole model is
  /// there once it is opened.
  bool has_weights(const simulated_model& x) const {
    return !x.on.empty() || environment_.disk.is_limited();
  }

  model_info info_of(const std::string& model, uint64_t version,
                     const simulated_model& x) const {
    return has_weights(x)
             ? describe(*environment_.all.whole(model, version),
                        aliases_of(version))
             : describe(manifest_of(model, version, x), aliases_of(version));
  }

  std::shared_ptr<const bundle> find(const std::string& model, uint64_t version,
                                     const simulated_model& x,
                                     verify how) const {
    if (!has_weights(x)) {
      auto out = std::make_shared<bundle>();
      out->info = manifest_of(model, version, x);
      return out;
    }
    if (!environment_.disk.is_limited())
      return environment_.all.whole(model, version);
    return environment_.all.absent(model, version, place_for(how));
  }

  bundle_environment environment_;
  disk_reads reads_;
};

class simulated_keeper : public bundle_keeper {
public:
  explicit simulated_keeper(bundle_environment environment)
    : environment_(std::move(environment)),
      writes_(environment_.disk.open()) {}

  void list(listed done) override {
    soon([this, done] {
      kept_list out;
      for (auto& [content, x] : environment_.disk.kept())
        out.bundles.push_back({describe(*x, {}), microseconds{0}});
      done(std::move(out));
    });
  }

  void open(const std::string& content, verify how,
            bundle_reader::opened done) override {
    soon([=, this] {
      auto i = environment_.disk.kept().find(content);
      if (i == environment_.disk.kept().end())
        return done(error{ec::unknown_model, content + " is not kept", {}});
      auto& info = i->second->info;
      auto x = environment_.all.absent(info.name, info.version, place_for(how));
      done(fetched{x, describe(*x, {}), "disk"});
    });
  }

  void keep(std::shared_ptr<const bundle> opened, kept done) override {
    auto written = [=, this] {
      auto& info = opened->info;
      environment_.disk.kept()[describe(*opened, {}).content] =
        environment_.all.whole(info.name, info.version);
      done({});
    };
    if (writes_)
      writes_->send(opened->info.weights.bytes, &environment_.process, written);
    else
      soon(written);
  }

  void drop(const std::string& content) override {
    soon([=, this] { environment_.disk.kept().erase(content); });
  }

  bool is_its_own(const std::string&) const override { return false; }

private:
  template <class F>
  void soon(F f) {
    environment_.process.world().soon(environment_.process, std::move(f));
  }

  bundle_environment environment_;
  /// null: writing takes no time
  std::unique_ptr<simulated_network::stream> writes_;
};

} // namespace

std::shared_ptr<bundle_reader>
make_simulated_reader(bundle_environment environment) {
  return std::make_shared<simulated_reader>(std::move(environment));
}

std::shared_ptr<bundle_keeper>
make_simulated_keeper(bundle_environment environment) {
  return std::make_shared<simulated_keeper>(std::move(environment));
}

} // namespace millrace::simulator
