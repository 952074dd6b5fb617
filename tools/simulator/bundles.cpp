// SPDX-License-Identifier: Apache-2.0
#include "simulator/bundles.hpp"

#include <map>

#include "simulator/model.hpp"

namespace millrace::simulator {

namespace {

model_info info_of(const manifest& x) {
  auto aliases = std::vector<std::string>{"default"};
  return describe(x, x.version == 1 ? aliases : std::vector<std::string>{});
}

std::string label_of(const std::string& model, uint64_t version) {
  return model + "." + std::to_string(version);
}

manifest manifest_of(const std::string& model, uint64_t version,
                     simulated_model x) {
  if (!x.alike)
    x.layers += version - 1;
  auto out = simulator::manifest_of(model, x);
  out.version = version;
  return out;
}

class simulated_reader : public bundle_reader {
public:
  explicit simulated_reader(bundle_ground ground)
    : ground_(std::move(ground)) {}

  void open(const std::string& model, uint64_t version, opened done) override {
    ground_.process.world().soon(ground_.process, [=, this] {
      auto i = ground_.what.bundles.find(model);
      if (i == ground_.what.bundles.end() || version == 0
          || version > i->second.versions)
        return done(error{ec::unknown_model, "no bundle of " + model, {}});
      if (i->second.broken)
        return done(error{ec::bad_config, "a byte of it is wrong", {}});
      auto there = i->second.at == bundle_place::host
                   || ground_.here->contains(label_of(model, version));
      if (!there)
        return fetch(model, version, i->second, done);
      ground_.seen_by.on_fetched(ground_.node, model, "host");
      give(model, version, i->second, done);
    });
  }

  void bring(std::shared_ptr<const bundle>, layer_range) override {
    // It was opened when all of it was there.
  }

  void watch(changed tell) override {
    ground_.process.world().soon(ground_.process, [this, tell] {
      std::vector<model_info> out;
      for (auto& [name, x] : ground_.what.bundles)
        for (uint64_t version = 1; version <= x.versions; ++version)
          out.push_back(info_of(manifest_of(name, version, x)));
      tell(std::move(out));
    });
  }

private:
  static void give(const std::string& model, uint64_t version,
                   const simulated_model& x, const opened& done) {
    auto content = std::make_shared<bundle>();
    content->info = manifest_of(model, version, x);
    auto info = info_of(content->info);
    done(fetched{std::move(content), std::move(info)});
  }

  /// Chunk after chunk; the last one completes it.
  void fetch(const std::string& model, uint64_t version,
             const simulated_model& x, const opened& done) {
    auto part = ground_.faults->failing_fetches;
    if (part > 0 && ground_.random.uniform() < part)
      return done(error{ec::unavailable, "the object store gives nothing", {}});
    auto& from = streams_[model];
    if (!from)
      from = ground_.network.open(ground_.network.store(), ground_.host);
    auto left = x.bytes.value;
    for (auto chunk = ground_.what.chunk.value; left > chunk; left -= chunk)
      from->send(chunk, &ground_.process, [] {});
    from->send(left, &ground_.process, [=, this] {
      ground_.here->insert(label_of(model, version));
      ground_.seen_by.on_fetched(ground_.node, model, "store");
      give(model, version, x, done);
    });
  }

  bundle_ground ground_;
  std::map<std::string, std::unique_ptr<simulated_network::stream>> streams_;
};

} // namespace

std::shared_ptr<bundle_reader> make_simulated_reader(bundle_ground ground) {
  return std::make_shared<simulated_reader>(std::move(ground));
}

} // namespace millrace::simulator
