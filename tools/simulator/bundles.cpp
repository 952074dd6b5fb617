// SPDX-License-Identifier: Apache-2.0
#include "simulator/bundles.hpp"

#include <algorithm>
#include <map>

#include "simulator/model.hpp"

namespace millrace::simulator {

namespace {

std::vector<std::string> aliases_of(const manifest& x) {
  return x.version == 1 ? std::vector<std::string>{"default"}
                        : std::vector<std::string>{};
}

model_info info_of(const manifest& x) {
  return describe(x, aliases_of(x));
}

model_info info_of(const bundle& x) {
  return describe(x, aliases_of(x.info));
}

std::string label_of(const std::string& model, uint64_t version) {
  return model + "." + std::to_string(version);
}

class simulated_reader : public bundle_reader {
public:
  explicit simulated_reader(bundle_environment environment)
    : environment_(std::move(environment)) {}

  void open(const std::string& model, uint64_t version, verify,
            opened done) override {
    environment_.process.world().soon(environment_.process, [=, this] {
      auto i = environment_.what.bundles.find(model);
      if (i == environment_.what.bundles.end() || version == 0
          || version > i->second.versions)
        return done(error{ec::unknown_model, "no bundle of " + model, {}});
      if (i->second.broken)
        return done(error{ec::bad_config, "a byte of it is wrong", {}});
      if (!i->second.on.empty())
        return open_real(model, version, i->second, done);
      auto there = i->second.at == bundle_place::host
                   || environment_.here->contains(label_of(model, version));
      if (!there)
        return fetch(model, version, i->second, done);
      environment_.seen_by.on_fetched(environment_.node, model, "host");
      give(model, version, i->second, done);
    });
  }

  void bring(std::shared_ptr<const bundle>, layer_range,
             transfer_rank) override {
    // It was opened when all of it was there.
  }

  void watch(changed tell, broken) override {
    environment_.process.world().soon(environment_.process, [this, tell] {
      std::vector<model_info> out;
      for (auto& [name, x] : environment_.what.bundles)
        for (uint64_t version = 1; version <= x.versions; ++version) {
          if (x.on.empty())
            out.push_back(info_of(manifest_of(name, version, x)));
          else if (has(x))
            out.push_back(info_of(*environment_.real.get(name, version, x)));
        }
      tell({std::move(out)});
    });
  }

private:
  /// Whether it is on this host's disk, of a model that is not on all.
  bool has(const simulated_model& x) const {
    return std::count(x.on.begin(), x.on.end(), environment_.node) != 0;
  }

  /// What is not here, others have.
  void open_real(const std::string& model, uint64_t version,
                 const simulated_model& x, const opened& done) {
    auto is_here = has(x);
    environment_.seen_by.on_fetched(environment_.node, model,
                                    is_here ? "host" : "hosts");
    if (!is_here)
      return done(error{ec::unknown_model, "no bundle of " + model, {}});
    auto content = environment_.real.get(model, version, x);
    auto info = info_of(*content);
    done(fetched{std::move(content), std::move(info), "disk"});
  }

  static void give(const std::string& model, uint64_t version,
                   const simulated_model& x, const opened& done) {
    auto content = std::make_shared<bundle>();
    content->info = manifest_of(model, version, x);
    auto info = info_of(content->info);
    done(fetched{std::move(content), std::move(info), "disk"});
  }

  /// Chunk after chunk; the last one completes it.
  void fetch(const std::string& model, uint64_t version,
             const simulated_model& x, const opened& done) {
    auto part = environment_.faults->failing_fetches;
    if (part > 0 && environment_.random.uniform() < part)
      return done(error{ec::unavailable, "the object store gives nothing", {}});
    auto& from = streams_[model];
    if (!from)
      from = environment_.network.open(environment_.network.store(),
                                       environment_.host);
    auto left = x.bytes.value;
    for (auto chunk = environment_.what.chunk.value; left > chunk;
         left -= chunk)
      from->send(chunk, &environment_.process, [] {});
    from->send(left, &environment_.process, [=, this] {
      environment_.here->insert(label_of(model, version));
      environment_.seen_by.on_fetched(environment_.node, model, "store");
      give(model, version, x, done);
    });
  }

  bundle_environment environment_;
  std::map<std::string, std::unique_ptr<simulated_network::stream>> streams_;
};

} // namespace

std::shared_ptr<bundle_reader>
make_simulated_reader(bundle_environment environment) {
  return std::make_shared<simulated_reader>(std::move(environment));
}

} // namespace millrace::simulator
