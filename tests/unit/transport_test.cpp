// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <msgpack.hpp>

#include "tests/support/builders.hpp"
#include "tests/support/samples.hpp"
#include "transport/codec.hpp"
#include "transport/message_types.hpp"
#include "transport/messages/all.hpp"
#include "transport/wire.hpp"
#include "transport/zmq/loans.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

template <class T>
result<T> there_and_back(const T& x, timestamp sent = at(0s),
                         timestamp received = at(0s)) {
  encoder out{sent, nullptr};
  out.put(x);
  auto attachments = out.take_attachments();
  auto body = out.take_body();
  decode_context ctx{received, nullptr, attachments, 0};
  return decode<T>(body.view(), ctx);
}

/// Decodes MessagePack that a test packs itself.
template <class T, class F>
result<T> decode_packed(F pack) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer{buffer};
  pack(packer);
  decode_context ctx{at(0s), nullptr, {}, 0};
  return decode<T>(std::as_bytes(std::span{buffer.data(), buffer.size()}), ctx);
}

template <class T>
result<T> decode_bytes(const std::string& text) {
  decode_context ctx{at(0s), nullptr, {}, 0};
  return decode<T>(std::as_bytes(std::span{text}), ctx);
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("codec: every message is decoded as it was encoded",
                          T, every_message) {
  auto x = sample<T>(at(0s));
  auto y = there_and_back(x);
  REQUIRE(y);
  CHECK(*y == x);
}
TEST_CASE_TEMPLATE_APPLY(every_message, all_messages);

TEST_CASE("codec: every double keeps its value") {
  for (double y : {0.0, 1.0, -3.0, 0.1, 0x1p64, -0x1p63, 1e308}) {
    infer x;
    x.accuracy = y;
    CHECK(there_and_back(x)->accuracy == y);
  }
}

TEST_CASE("codec: a tensor without elements is transmitted") {
  infer x;
  x.inputs.push_back({"", {dtype::f32, {0, 4}, {}}});
  CHECK(there_and_back(x)->inputs == x.inputs);
}

TEST_CASE(
  "codec: a tensor over 1 KiB is sent as a frame instead of in the body") {
  infer x;
  x.inputs.push_back({"image", floats({256, 256})});
  encoder out{at(0s), nullptr};
  out.put(x);
  auto attachments = out.take_attachments();
  REQUIRE(attachments.size() == 1);
  CHECK(attachments[0].data() == x.inputs[0].value.data.data());
  CHECK(out.take_body().size() < 200);
}

TEST_CASE("codec: small tensors are sent in the body up to 1 MiB") {
  run_batch x;
  for (int i = 0; i < 1100; ++i)
    x.items.push_back({{}, {floats({256})}});
  encoder out{at(0s), nullptr};
  out.put(x);
  CHECK(out.take_attachments().size() == 1100 - 1024);
  CHECK(*there_and_back(x) == x);
}

TEST_CASE("codec: a deadline is sent as time left") {
  auto x = there_and_back(batch_item{{at(5s)}, {}}, at(3s), at(100s));
  REQUIRE(x);
  CHECK(x->due.at == at(102s));
  CHECK(there_and_back(batch_item{{far_future}, {}})->due.at == far_future);
}

TEST_CASE("codec: unknown fields with any content are ignored") {
  auto x = decode_packed<heartbeat>([](auto& p) {
    p.pack_map(2);
    p.pack(std::string{"new"});
    p.pack_map(1);
    p.pack(std::string{"deep"});
    p.pack_array(2);
    p.pack(1);
    p.pack_nil();
    p.pack(std::string{"link"});
    p.pack(9);
  });
  REQUIRE(x);
  CHECK(x->link == 9);
}

TEST_CASE("codec: a value of the wrong type is refused with its key") {
  auto x = decode_packed<heartbeat>([](auto& p) {
    p.pack_map(1);
    p.pack(std::string{"link"});
    p.pack(std::string{"nine"});
  });
  CHECK(x.failure().text
        == "the message has something else than an integer in"
           " range at key 'link'");
}

TEST_CASE("codec: an error names the path of keys to the wrong value") {
  auto x = decode_packed<infer>([](auto& p) {
    p.pack_map(2);
    p.pack(std::string{"model"});
    p.pack(std::string{"m"});
    p.pack(std::string{"inputs"});
    p.pack_array(1);
    p.pack_map(2);
    p.pack(std::string{"dtype"});
    p.pack(std::string{"F32"});
    p.pack(std::string{"shape"});
    p.pack(std::vector<int>(9, 1));
  });
  CHECK(x.failure().text
        == "the message has more elements than there is room for (expected at"
           " most 8 extents) at key 'inputs.shape'");
}

TEST_CASE("codec: an integer that does not fit its field is refused") {
  auto x = decode_packed<header>([](auto& p) {
    p.pack_map(1);
    p.pack(std::string{"v"});
    p.pack(uint64_t{1} << 40);
  });
  CHECK_FALSE(x);
  auto y = decode_packed<header>([](auto& p) {
    p.pack_map(1);
    p.pack(std::string{"id"});
    p.pack(UINT64_MAX);
  });
  CHECK(y->id == UINT64_MAX);
}

TEST_CASE("codec: a key given twice is refused") {
  auto x = decode_packed<heartbeat>([](auto& p) {
    p.pack_map(2);
    p.pack(std::string{"link"});
    p.pack(1);
    p.pack(std::string{"link"});
    p.pack(2);
  });
  CHECK(x.failure().text == "the message has a key twice at key 'link'");
}

TEST_CASE("P11: hostile MessagePack is refused with little memory") {
  CHECK_FALSE(decode_bytes<infer>(""));
  CHECK_FALSE(decode_bytes<infer>("\xc1"));
  CHECK_FALSE(decode_bytes<infer>(std::string(1'000'000, '\x91')));
  CHECK_FALSE(decode_bytes<infer>(std::string(100, '\x81')));
  CHECK_FALSE(decode_bytes<infer>("\xdf\xff\xff\xff\xff"));
  CHECK_FALSE(decode_bytes<infer>("\x81\xa6inputs\xdd\xff\xff\xff\xff"));
  CHECK_FALSE(decode_bytes<infer>("\x81\xa5model\xdb\xff\xff\xff\xff"));
  CHECK_FALSE(decode_bytes<infer>("\x80\x80"));
  CHECK_FALSE(decode_bytes<infer>("\x81\x80\x80"));
  CHECK_FALSE(decode_bytes<infer>("\x81\x05\x80"));
  // 60,000 empty maps in 60 KB would take 100 bytes each.
  std::string many = "\x81\xa6inputs\xdc\xea\x60";
  many += std::string(60'000, '\x80');
  CHECK(decode_bytes<infer>(many).failure().code == ec::too_large);
}

TEST_CASE("codec: a tensor must fit the frame it names") {
  infer x;
  x.inputs.push_back({"a", floats({20, 20})});
  encoder out{at(0s), nullptr};
  out.put(x);
  auto body = out.take_body();
  auto with = [&](std::vector<shared_bytes> frames) {
    decode_context ctx{at(0s), nullptr, frames, 0};
    return decode<infer>(body.view(), ctx);
  };
  CHECK(with({shared_bytes::copy_of(std::string(1600, 'x'))}));
  CHECK_FALSE(with({shared_bytes::copy_of(std::string(1599, 'x'))}));
  CHECK_FALSE(with({}));
}

TEST_CASE("codec: fields at their default can be left out") {
  encoder out{at(0s), nullptr};
  out.put_sparse(infer{});
  auto body = out.take_body();
  CHECK(body.size() == 1);
  decode_context ctx{at(0s), nullptr, {}, 0};
  CHECK(*decode<infer>(body.view(), ctx) == infer{});
}

TEST_CASE("codec: an answer always has its status") {
  for (auto status : {ec::internal, ec::ok}) {
    encoder out{at(0s), nullptr};
    infer_reply x;
    x.status = status;
    out.put_sparse(x);
    auto body = out.take_body();
    CHECK(body.text().find("status") != std::string::npos);
    decode_context ctx{at(0s), nullptr, {}, 0};
    CHECK(*decode<infer_reply>(body.view(), ctx) == x);
  }
}

TEST_CASE("wire: another protocol version is refused with both versions") {
  header x;
  x.v = 7;
  auto y = open_frame(encode_header(x, at(0s)).view(), at(0s));
  CHECK(y.failure().text
        == "protocol version 7 is not supported here (expected 2 in header key"
           " 'v')");
}

TEST_CASE("wire: a frame of protocol version 1 is refused") {
  header x;
  x.v = 1;
  x.t = "done";
  auto y = open_frame(encode_header(x, at(0s)).view(), at(0s));
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::bad_request);
  CHECK(y.failure().text
        == "protocol version 1 is not supported here (expected 2 in header key"
           " 'v')");
}

TEST_CASE("wire: a header keeps its fields and its size is bounded") {
  header x{protocol_version, "infer", 42, "", "", 0, {at(1s)}, 3, "", "abc"};
  auto frame = std::string{encode_header(x, at(0s)).text()} + "body";
  auto y = open_frame(std::as_bytes(std::span{frame}), at(0s));
  CHECK(y->head == x);
  CHECK(y->body.size() == 4);
  x.trace = std::string(5000, 't');
  CHECK(open_frame(encode_header(x, at(0s)).view(), at(0s)).failure().code
        == ec::too_large);
}

TEST_CASE("message_types: each name is unique and found by name and type") {
  std::vector<std::string_view> seen;
  for (auto name : message_names()) {
    CHECK(std::count(seen.begin(), seen.end(), name) == 0);
    seen.push_back(name);
    CHECK(find_message_type(name)->name == name);
  }
  CHECK(find_message_type(typeid(run_batch))->name == "run_batch");
  CHECK(find_message_type("exit") == nullptr);
  CHECK(find_message_type(typeid(int)) == nullptr);
}

TEST_CASE(
  "P10: a connection has at most its limit of bytes lent or one message") {
  zeromq::loan_book book;
  constexpr zeromq::loan_limits limits{100, 1000};
  auto a = book.open("a", 500, limits).account;
  REQUIRE(a); // a single message may exceed the limit
  *a += 500;
  CHECK_FALSE(book.open("a", 1, limits).account);
  CHECK(book.open("b", 60, limits).account);
  *a -= 450;
  CHECK(book.open("a", 50, limits).account);
  CHECK_FALSE(book.open("a", 51, limits).account);
}

TEST_CASE("P10: bytes copied for a connection count with its next loan") {
  zeromq::loan_book book;
  constexpr zeromq::loan_limits limits{100'000, 1'000'000};
  size_t copied = 0;
  while (book.may_copy("a", 1000))
    copied += 1000;
  CHECK(copied > 1000);
  CHECK(copied < limits.each);
  CHECK(book.may_copy("b", 1000)); // the limit is per connection
  CHECK(book.open("a", 1000, limits).copied == copied);
  CHECK(book.may_copy("a", 1000));
  auto last = book.open("a", 1000, limits);
  CHECK(last.copied == 1000);
  *last.account += limits.each;
  CHECK(book.may_copy("a", 10));
  CHECK_FALSE(book.open("a", 1000, limits).account);
}

TEST_CASE("P10: several books share one total of lent bytes") {
  auto all = std::make_shared<std::atomic<size_t>>(0);
  zeromq::loan_book x{all}, y{all};
  constexpr zeromq::loan_limits limits{100, 150};
  *x.open("a", 100, limits).account += 150;
  CHECK_FALSE(y.open("b", 1, limits).account);
}

TEST_CASE("P10: accounts of connections without loans are dropped") {
  zeromq::loan_book book;
  constexpr zeromq::loan_limits limits{100, 1000};
  auto busy = book.open("busy", 1, limits).account;
  *busy += 1;
  for (int i = 0; i < 1000; ++i)
    CHECK(book.open("client-" + std::to_string(i), 1, limits).account);
  CHECK(book.size() < 130);
  CHECK(book.open("busy", 1, limits).account == busy);
}

TEST_CASE("P10: all connections together have a limit of lent bytes") {
  zeromq::loan_book book;
  constexpr zeromq::loan_limits limits{100, 150};
  auto a = book.open("a", 100, limits).account;
  *a += 100;
  auto b = book.open("b", 100, limits).account;
  REQUIRE(b);
  *b += 100;
  CHECK_FALSE(book.open("c", 1, limits).account);
  *a -= 100;
  CHECK(book.open("c", 1, limits).account);
}

TEST_CASE("codec: names with control characters are refused and texts with "
          "them are not") {
  auto refused = [](auto x) {
    auto wire = make_wire_message(x, at(0s), nullptr);
    decode_context ctx{at(0s), nullptr, {}, 0};
    auto y = decode<decltype(x)>(wire.body.view(), ctx);
    return !y && y.failure().code == ec::bad_request
           && y.failure().text.find("'a\\x1b[2J'") != std::string::npos;
  };
  std::string bad = "a\x1b[2J";
  hello from;
  CHECK_FALSE(refused(from));
  for (auto* name : {&from.cluster, &from.self.name, &from.self.address,
                     &from.self.rack, &from.self.host}) {
    *name = bad;
    CHECK(refused(from));
    name->clear();
  }
  from.self.roles = {"gateway", bad};
  CHECK(refused(from));
  from.self.roles.clear();
  from.members.emplace_back().name = bad;
  CHECK(refused(from));
  model_info model;
  model.aliases = {bad};
  CHECK(refused(model));
  set_model order;
  order.settings.model = bad;
  CHECK(refused(order));
  error_reply why;
  why.text = bad;
  CHECK_FALSE(refused(why));
}

TEST_CASE("codec: keys of maps have no control characters") {
  policy_memory x;
  x.values["a\x1b"] = 1;
  auto wire = make_wire_message(x, at(0s), nullptr);
  decode_context ctx{at(0s), nullptr, {}, 0};
  CHECK_FALSE(decode<policy_memory>(wire.body.view(), ctx));
}
