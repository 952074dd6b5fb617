// SPDX-License-Identifier: Apache-2.0
#include "tests/support/golden.hpp"

#include <caf/event_based_actor.hpp>

#include "actors/registry/registry_state.hpp"
#include "models/bundle_store.hpp"
#include "runtime/hash.hpp"
#include "runtime/store/audit_journal.hpp"
#include "runtime/store/fact_journal.hpp"
#include "tests/fuzz/frames.hpp"

namespace millrace::test {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view somebody = "other/replica/m.1.1";

caf::behavior idle(caf::event_based_actor*) {
  return {[](int) {}};
}

} // namespace

golden_frames::golden_frames()
  : actor_(caf::actor_cast<caf::strong_actor_ptr>(system_.spawn(idle))) {
}

golden_frames::~golden_frames() {
  caf::anon_send_exit(actor_, caf::exit_reason::kill);
}

header golden_frames::head(std::string_view type) const {
  header out;
  named_filler{"header", now(), actor_}.fill(out);
  out.v = protocol_version;
  out.t = type;
  return out;
}

std::string golden_frames::address_of(const caf::strong_actor_ptr& x) {
  return std::string{x == actor_ ? somebody : std::string_view{}};
}

caf::strong_actor_ptr golden_frames::resolve(std::string_view address) {
  return address == somebody ? actor_ : nullptr;
}

// -- a bundle -----------------------------------------------------------------

namespace {

constexpr std::string_view code = "not TorchScript, but as good to hash";

std::string weights() {
  return *write_safetensors({{"model.weight", golden_parameter()}});
}

std::string hash_of(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span{text}));
}

} // namespace

tensor golden_parameter() {
  return *tensor::make(dtype::i8, {2, 3}, shared_bytes::copy_of("golden"));
}

manifest golden_manifest() {
  manifest out;
  out.format = 1; // the format of the release
  out.name = "golden";
  out.version = 7;
  out.application = "app";
  out.description = "what the release before wrote";
  out.accuracy = {0.5, "top-5", "held out"};
  out.licence = "Apache-2.0";
  out.precision = "int8";
  out.parent = "golden/6";
  out.generator = "golden_files";
  out.labels = {"no", "1", "a: b"};
  out.signature.inputs = {{"x", dtype::f32, {4, -1}}};
  out.signature.outputs = {{"y", dtype::i64, {2, -1}}};
  out.signature.batch_axis = 1;
  auto parameter = golden_parameter();
  out.layers = {{"model",
                 "layers/model.pt",
                 code.size(),
                 hash_of(code),
                 hash_of(parameter.data.text()),
                 1,
                 0,
                 {},
                 {},
                 {}}};
  auto file = weights();
  out.weights = {"weights.safetensors", file.size(), hash_of(file)};
  return out;
}

// -- data of a node -----------------------------------------------------------

std::vector<std::pair<std::string, std::string>> golden_rows() {
  model_row x;
  named_filler{"model_row", {}, nullptr}.fill(x);
  x.schema = 1;
  encoder out{{}, nullptr};
  out.put(x);
  return {{"m", std::string{out.take_body().text()}}, {"none", "\x80"}};
}

std::vector<std::string> golden_lines() {
  return {"ops (operator) said drain to './supervisor'",
          "a client was refused, with '\\x00'"};
}

// -- writing ------------------------------------------------------------------

namespace {

result<void> write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  return write_file(file.string(), std::as_bytes(std::span{text}));
}

template <class... Ts>
result<void> write_frames(const fs::path& folder, std::tuple<Ts...>*) {
  golden_frames golden;
  result<void> out;
  auto one = [&]<class T>(T*) {
    if (out)
      out =
        write(folder / T::record_name(), fuzz::join_frames(golden.frames<T>()));
  };
  (one(static_cast<Ts*>(nullptr)), ...);
  return out;
}

result<void> write_bundle(const fs::path& folder) {
  bundle_store store{folder.string()};
  auto info = golden_manifest();
  auto done = store.add(info, {{"layers/model.pt", std::string{code}},
                               {"weights.safetensors", weights()}});
  if (!done)
    return done.failure();
  return store.set_alias(info.name, "stable", info.version);
}

result<void> write_facts(const fs::path& folder) {
  auto where = open_directory(folder.string());
  if (!where)
    return where.failure();
  auto journal = fact_journal::open(std::move(*where), facts_file);
  if (!journal)
    return journal.failure();
  for (auto& [key, value] : golden_rows()) {
    if (auto done = (*journal)->stage(golden_table, key, value, 0); !done)
      return done.failure();
    if (auto done = (*journal)->commit(); !done)
      return done.failure();
  }
  return {};
}

result<void> write_audit(const fs::path& folder) {
  auto where = open_directory(folder.string());
  if (!where)
    return where.failure();
  auto journal = audit_journal::open(std::move(*where));
  return journal ? (*journal)->append(golden_lines()) : journal.failure();
}

} // namespace

result<void> write_golden(const fs::path& folder) {
  auto frames = static_cast<all_messages*>(nullptr);
  if (auto done = write_frames(folder / "frames", frames); !done)
    return done;
  if (auto done = write_bundle(folder / "bundles"); !done)
    return done;
  if (auto done = write_facts(folder / "data"); !done)
    return done;
  auto done = write_audit(folder / "data/audit");
  for (auto lock : {"data/lock", "data/audit/lock"}) // lock files of the writer
    fs::remove(folder / lock);
  return done;
}

} // namespace millrace::test
