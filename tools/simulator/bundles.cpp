// SPDX-License-Identifier: Apache-2.0
#include "simulator/bundles.hpp"

#include <map>

namespace millrace::simulator {

namespace {

model_info describe(const simulated_model& x, const manifest& content) {
  model_info out;
  out.model = content.name;
  out.version = content.version;
  out.application = x.application;
  out.accuracy = x.accuracy;
  out.bytes = x.bytes.value;
  out.aliases = {"default"};
  out.signature = content.signature;
  return out;
}

class simulated_reader : public bundle_reader {
public:
  explicit simulated_reader(bundle_ground ground)
    : ground_(std::move(ground)) {}

  void open(const std::string& model, uint64_t version, opened done) override {
    ground_.process.world().soon(ground_.process, [=, this] {
      auto i = ground_.what.bundles.find(model);
      if (i == ground_.what.bundles.end() || version != 1)
        return done(error{ec::unknown_model, "no bundle of " + model, {}});
      if (i->second.broken)
        return done(error{ec::bad_config, "a byte of it is wrong", {}});
      auto there =
        i->second.at == bundle_place::host || ground_.here->contains(model);
      if (!there)
        return fetch(model, i->second, done);
      ground_.watcher.on_fetched(ground_.node, model, "host");
      give(model, i->second, done);
    });
  }

  void watch(changed tell) override {
    ground_.process.world().soon(ground_.process, [this, tell] {
      std::vector<model_info> out;
      for (auto& [name, x] : ground_.what.bundles)
        out.push_back(describe(x, manifest_of(name, x)));
      tell(std::move(out));
    });
  }

private:
  static void give(const std::string& model, const simulated_model& x,
                   const opened& done) {
    auto content = std::make_shared<bundle>();
    content->info = manifest_of(model, x);
    auto info = describe(x, content->info);
    done(fetched{std::move(content), std::move(info)});
  }

  /// Chunk after chunk; the last one completes it.
  void fetch(const std::string& model, const simulated_model& x,
             const opened& done) {
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
      ground_.here->insert(model);
      ground_.watcher.on_fetched(ground_.node, model, "store");
      give(model, x, done);
    });
  }

  bundle_ground ground_;
  std::map<std::string, std::unique_ptr<simulated_network::stream>> streams_;
};

} // namespace

manifest manifest_of(const std::string& name, const simulated_model& x) {
  manifest out;
  out.format = bundle_format;
  out.name = name;
  out.version = 1;
  out.application = x.application;
  if (x.accuracy)
    out.accuracy = accuracy_info{*x.accuracy, "top-1", "assumed"};
  out.generator = "millrace simulate";
  auto row = [](const char* tensor, uint64_t bytes) {
    return tensor_spec{tensor, dtype::u8, {-1, static_cast<int64_t>(bytes)}};
  };
  if (is_tagged(x)) {
    out.signature.inputs.push_back(row("tag", tag_bytes));
    out.signature.outputs.push_back(row("tag", tag_bytes));
  }
  out.signature.inputs.push_back(row("x", x.input.value));
  out.signature.outputs.push_back(row("y", x.output.value));
  out.layers.push_back({"model", "model.pt", 0, "", "", 0});
  out.weights.bytes = x.bytes.value;
  return out;
}

std::shared_ptr<bundle_reader> make_simulated_reader(bundle_ground ground) {
  return std::make_shared<simulated_reader>(std::move(ground));
}

} // namespace millrace::simulator
