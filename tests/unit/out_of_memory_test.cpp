// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "config/config.hpp"
#include "models/bundle.hpp"
#include "models/npy.hpp"
#include "models/safetensors.hpp"
#include "runtime/store/facts.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/support/allocation_meter.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_directory.hpp"
#include "transport/bus.hpp"
#include "transport/client_message.hpp"
#include "transport/keys/key_book.hpp"
#include "transport/keys/key_file.hpp"
#include "transport/message_types.hpp"
#include "transport/zmq/socket.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

namespace fs = std::filesystem;

const fs::path golden_folder = MILLRACE_SOURCE "/tests/golden";

std::string content_of(const fs::path& file) {
  auto text = read_file(file.string(), 1 << 20);
  REQUIRE(text);
  return *text;
}

/// Runs `f` with a failure of each of its allocations in turn. `f` must end
/// normally or with std::bad_alloc, and hold no memory afterwards. Returns the
/// number of allocations.
template <class F>
size_t run_short(F f) {
  f(); // makes allocations that happen once per process
  for (size_t n = 1;; ++n) {
    CAPTURE(n);
    allocation_meter meter;
    bool failed = false;
    {
      failing_allocation fault{n};
      try {
        f();
      } catch (const std::bad_alloc&) {
      }
      failed = fault.happened();
    }
    REQUIRE(meter.held() == 0);
    if (!failed)
      return n - 1;
  }
}

/// Records the ids of answered requests, for a gateway that accepts none.
class answered_ids : public bus {
public:
  const std::set<uint64_t>& ids() const { return ids_; }

  const member& self() const override { return self_; }
  void publish(const std::string&, caf::strong_actor_ptr) override {}
  std::vector<std::string> published(const std::string&) const override {
    return {};
  }
  void subscribe(caf::strong_actor_ptr, std::string) override {}
  member_list members() const override { return {}; }
  void serve_clients(caf::strong_actor_ptr) override {}
  void answer(const session&, client_tag tag, infer_reply) override {
    ids_.insert(tag.id);
  }
  void answer(const session&, client_tag, model_list_reply) override {}
  std::string address_of(const caf::strong_actor_ptr&) override { return {}; }
  caf::strong_actor_ptr resolve(std::string_view) override { return {}; }

private:
  member self_;
  std::set<uint64_t> ids_;
};

struct nobodys_book : address_book {
  std::string address_of(const caf::strong_actor_ptr&) override { return {}; }
  caf::strong_actor_ptr resolve(std::string_view) override { return {}; }
};

} // namespace

TEST_CASE(
  "P18: a message that runs out of memory while it is decoded leaks nothing") {
  size_t total = 0;
  for (auto& file : fs::directory_iterator{golden_folder / "frames"}) {
    INFO(file.path().filename().string());
    auto text = content_of(file.path());
    auto frames = fuzz::split_frames(std::as_bytes(std::span{text}));
    auto opened = open_frame(frames.at(0).view(), fuzz::now());
    REQUIRE(opened);
    auto* type = find_message_type(opened->head.t);
    if (type != nullptr)
      total += run_short([&] {
        nobodys_book book;
        decode_context ctx{fuzz::now(), &book, std::span{frames}.subspan(1), 0};
        static_cast<void>(type->decode(opened->body, ctx));
      });
    total += run_short([&] {
      decode_client_frame(nullptr, {0, "c"}, frames[0].view(),
                          std::span{frames}.subspan(1), fuzz::now());
    });
  }
  CHECK((total > 200 || !failing_allocation::possible));
}

TEST_CASE("P18: a request that runs out of memory causes no answer to another "
          "request") {
  infer x;
  x.model = std::string(100, 'm');
  x.inputs.push_back({"", floats({1, 4})});
  for (size_t n = 1;; ++n) {
    CAPTURE(n);
    answered_ids net;
    header head;
    head.id = 7;
    frame_writer alone;
    alone.add(std::move(head), x, fuzz::now());
    auto sent = alone.take();
    auto happened = false;
    {
      failing_allocation fault{n};
      try {
        decode_client_frame(&net, {0, "c"}, sent.first.view(), sent.raw,
                            fuzz::now());
      } catch (const std::bad_alloc&) {
      }
      happened = fault.happened();
    }
    for (auto id : net.ids())
      CHECK(id == 7);
    if (!happened) {
      CHECK(net.ids() == std::set<uint64_t>{7}); // no gateway serves
      break;
    }
  }
}

TEST_CASE("P18: an answer that runs out of memory while it is sent reaches no "
          "receiver in part") {
  zmq::context_t context;
  auto router = zeromq::bind_router(context, "tcp://127.0.0.1:*", {});
  REQUIRE(router);
  auto come = [&](const char* name) {
    auto out = zeromq::make_dealer(context, name, {});
    REQUIRE(zeromq::connect(out, zeromq::bound_address(*router)));
    zeromq::frame_list heard;
    out.send(zmq::str_buffer("hello"), zmq::send_flags::none);
    REQUIRE(eventually([&] { return zeromq::receive(*router, heard); }, 5s));
    return out;
  };
  auto a = come("a"), b = come("b");
  auto bytes = [](size_t n) {
    return shared_bytes::copy_of(std::string(n, 'x'));
  };
  wire_frames large{bytes(10), {bytes(100'000), bytes(100'000)}};
  wire_frames small{bytes(20), {}};
  for (size_t n = 1;; ++n) {
    CAPTURE(n);
    auto sent = false, failed = false;
    {
      failing_allocation fault{n};
      try {
        sent = zeromq::send(*router, "a", large);
      } catch (const std::bad_alloc&) {
      }
      failed = fault.happened();
    }
    CHECK(sent == !failed);
    REQUIRE(zeromq::send(*router, "b", small));
    zeromq::frame_list got;
    REQUIRE(eventually([&] { return zeromq::receive(b, got); }, 5s));
    CHECK(got.size() == 1);
    CHECK(got[0].size() == 20);
    if (!failed)
      break;
  }
  zeromq::frame_list got;
  REQUIRE(eventually([&] { return zeromq::receive(a, got); }, 5s));
  CHECK(got.size() == 3);
  CHECK_FALSE(zeromq::receive(a, got));
}

TEST_CASE(
  "P18: a file that runs out of memory while it is read leaks nothing") {
  auto weights = shared_bytes::copy_of(
    content_of(golden_folder / "bundles/golden/7/weights.safetensors"));
  auto array = shared_bytes::copy_of(*write_npy(floats({2, 3})));
  auto journal = content_of(golden_folder / "data/facts.journal");
  auto total = run_short([&] { static_cast<void>(read_safetensors(weights)); });
  total += run_short([&] { static_cast<void>(read_npy(array)); });
  total += run_short([&] { static_cast<void>(read_facts(journal, "j")); });
  CHECK((total > 20 || !failing_allocation::possible));
}

TEST_CASE("P18: a bundle that is opened without memory leaks neither memory "
          "nor open files") {
  auto open_files = [] {
    return std::distance(fs::directory_iterator{"/proc/self/fd"}, {});
  };
  auto before = open_files();
  auto total = run_short([] {
    static_cast<void>(
      open_bundle(golden_folder / "bundles/golden/7", verify::hashes));
  });
  CHECK((total > 20 || !failing_allocation::possible));
  CHECK(open_files() == before);
}

TEST_CASE("P18: a config or list of keys or key that is read without memory "
          "leaks nothing") {
  temporary_directory folder;
  auto pair = make_key_pair();
  auto key = folder.path() + "/ops.key";
  REQUIRE(write_key_file(key, {"ops",
                               role::operating,
                               {},
                               pair.public_key,
                               pair.secret_key,
                               pair.public_key}));
  allowed_keys allowed;
  allowed.keys["ops"] = {role::operating, {}, pair.public_key, false};
  auto list = print_allowed_keys(allowed);
  auto config = content_of(MILLRACE_SOURCE "/config/quickstart.yaml");
  auto total = run_short([&] { static_cast<void>(read_key_file(key)); });
  total += run_short([&] { static_cast<void>(parse_allowed_keys(list, "l")); });
  total += run_short([&] { static_cast<void>(parse_config(config, "c")); });
  CHECK((total > 100 || !failing_allocation::possible));
}
