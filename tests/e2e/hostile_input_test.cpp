// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <sys/stat.h>

#include "runtime/bytes.hpp"
#include "runtime/hash.hpp"
#include "runtime/http_server.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/hostile_files.hpp"
#include "tests/support/hostile_frames.hpp"
#include "tests/support/http.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

namespace fs = std::filesystem;

struct answer {
  uint64_t id = 0;
  infer_reply reply;
};

/// Returns the next answer, or an answer with id 2^64 - 1 if none arrives.
answer next_answer(connection& from, microseconds longest = 5s) {
  answer out{UINT64_MAX, {}};
  auto x = from.receive(longest);
  if (!x)
    return out;
  frame_reader in{x->first.view(), x->raw, steady_now()};
  REQUIRE((in.next() && in.read(out.reply)));
  out.id = in.head().id;
  return out;
}

void check_answer(connection& to, const hostile_frame& x) {
  INFO(x.item);
  wire_frames frames{shared_bytes::copy_of(x.first), {}};
  for (auto& raw : x.raw)
    frames.raw.push_back(shared_bytes::copy_of(raw));
  REQUIRE(to.send(frames));
  auto y = next_answer(to);
  if (x.item == "bytes behind the end") {
    auto other = next_answer(to); // to the valid request
    if (y.reply.status == ec::ok)
      std::swap(y, other);
    CHECK(other.reply.status == ec::ok);
  }
  CHECK(y.id == x.id);
  CHECK(y.reply.status == x.status);
  CHECK(y.reply.error == x.says);
}

std::unique_ptr<connection> open(const std::string& address) {
  auto x = connection::open(address, 5s, "");
  REQUIRE(x);
  return std::move(*x);
}

template <class T>
void add(frame_writer& to, uint64_t id, const T& x) {
  header head;
  head.id = id;
  head.left = {steady_now() + 20s};
  to.add(head, x, steady_now());
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  REQUIRE(write_file(file.string(), std::as_bytes(std::span{text})));
}

} // namespace

TEST_CASE("P12: a gateway answers each hostile message once and keeps"
          " serving") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity}\n",
                 bundles};
  auto honest = c.start_and_meet();
  auto hostile = open(c.endpoint("all", "clients"));
  size_t said = 0;
  for (auto& xs : {hostile_envelopes(), hostile_tensors()})
    for (auto& x : xs) {
      check_answer(*hostile, x);
      if (++said % 10 == 0)
        CHECK(honest.infer_one(ask("identity", floats({1, 4})), 5s).status
              == ec::ok);
    }
  CHECK(said > 320);
  wire_frames many{shared_bytes::copy_of("\x80"), {}};
  many.raw.resize(100'000);
  REQUIRE(hostile->send(many));
  auto y = next_answer(*hostile, 10s);
  CHECK(y.reply.status == ec::too_large);
  CHECK(y.reply.error == "the message has more than 4096 raw frames");
  CHECK(next_answer(*hostile, 100ms).id == UINT64_MAX); // no second answer
  CHECK(honest.infer_one(ask("identity", floats({1, 4})), 5s).status == ec::ok);
}

TEST_CASE("P12: a duplicate id is refused and an id of another connection"
          " cannot be cancelled") {
  temporary_directory folder;
  auto acme = "ipc://" + folder / "acme";
  live_cluster c{
    {{"all", "    roles: [gateway, controller, worker]\n"
             "    tenants: {acme: \""
               + acme
               + "\"}\n"
                 "    devices:\n"
                 "      - type: emulated\n"
                 "        emulate: {load: 10ms, per_batch: 1s}\n"}},
    "  - {model: identity, policy: {batch: 1}}\n",
    bundles};
  c.start_and_meet();
  auto one = open(c.endpoint("all", "clients"));
  auto same_tenant = open(c.endpoint("all", "clients"));
  auto other_tenant = open(acme);
  auto request = ask("identity", floats({1, 4}));
  frame_writer out;
  add(out, 7, request);
  add(out, 7, request);
  REQUIRE(one->send(out.take()));
  auto refused = next_answer(*one);
  CHECK(refused.id == 7);
  CHECK(refused.reply.status == ec::bad_request);
  CHECK(refused.reply.error == "a request with id 7 is still open");
  for (auto* x : {same_tenant.get(), other_tenant.get()}) {
    add(out, 7, cancel{});
    REQUIRE(x->send(out.take()));
  }
  add(out, 7, request); // the same id is valid on another connection
  REQUIRE(other_tenant->send(out.take()));
  CHECK(next_answer(*one).reply.status == ec::ok);
  CHECK(next_answer(*other_tenant).reply.status == ec::ok);
  CHECK(next_answer(*same_tenant, 100ms).id == UINT64_MAX);
}

TEST_CASE("P12: a node with hostile bundles serves its other models") {
  temporary_directory folder;
  auto store = fs::path{folder.path()};
  fs::copy(bundles + "/identity", store / "identity",
           fs::copy_options::recursive);
  size_t n = 0;
  for (auto& x : hostile_manifests()) {
    auto bundle = store / ("manifest" + std::to_string(++n)) / "1";
    write(bundle / "layers/model.pt", "code");
    write(bundle / "model.yaml", x.content);
  }
  std::string served = "  - {model: identity}\n  - {model: m}\n";
  size_t weights = 0;
  for (auto& x : hostile_weights()) {
    auto name = "weights" + std::to_string(++weights);
    served += "  - {model: " + name + "}\n";
    auto bundle = store / name / "1";
    write(bundle / "layers/model.pt", "code");
    write(bundle / "weights.safetensors", x.content);
    auto manifest = good_manifest();
    manifest.replace(manifest.find("name: m\n"), 8, "name: " + name + "\n");
    manifest += "weights: {file: weights.safetensors, bytes: "
                + std::to_string(x.content.size()) + ", sha256: "
                + sha256_hex(std::as_bytes(std::span{x.content})) + "}\n";
    write(bundle / "model.yaml", manifest);
  }
  write(store / "m/1/layers/model.pt", "evil");
  write(store / "m/1/model.yaml", good_manifest());
  fs::create_directories(store / "pipe/1");
  REQUIRE(::mkfifo((store / "pipe/1/model.yaml").c_str(), 0600) == 0);
  fs::create_directory_symlink("/etc", store / "link");
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 served,
                 folder.path()};
  c.start_all();
  auto honest = c.connect_client();
  auto status_of = [&](const std::string& model) {
    return honest.infer_one(ask(model, floats({1, 4})), 5s).status;
  };
  CHECK(eventually([&] { return status_of("identity") == ec::ok; }, 30s));
  CHECK(eventually(
    [&] { return c.log_of("all").find("SHA-256") != std::string::npos; }, 10s));
  CHECK(eventually([&] { return c.logged("all", "safetensors: ") >= weights; },
                   10s));
  CHECK(status_of("m") == ec::deadline_exceeded); // configured but never ready
  CHECK(status_of("weights1") == ec::unavailable);
  CHECK(status_of("weights") == ec::unknown_model);
  CHECK(status_of("identity") == ec::ok);
}

TEST_CASE("P12: a page over HTTP contains no control characters") {
  auto server =
    http_server::listen("127.0.0.1:0", {{"/x", [] {
                                           return http_answer{200, "text/plain",
                                                              "a\x1b[2J\u009b"
                                                              "b\n"};
                                         }}});
  REQUIRE(server);
  CHECK(http_get((*server)->port(), "/x").ends_with("\r\n\r\na?[2J?b\n"));
}
