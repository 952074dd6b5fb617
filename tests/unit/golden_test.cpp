// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <msgpack.hpp>
#include <set>

#include "actors/registry/registry_state.hpp"
#include "models/bundle_store.hpp"
#include "runtime/store/audit_journal.hpp"
#include "runtime/store/facts.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/why.hpp"
#include "transport/message_types.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

namespace fs = std::filesystem;

const fs::path golden = MILLRACE_SOURCE "/tests/golden";

/// Fields that no supported release writes: run_batch's, which was always
/// false. Release 0.1.0 was the last with this field.
const std::set<std::string> given_up{".never_merge"};

/// The first difference by which `x` lacks a field or value of `said`; empty if
/// `x` has all. Maps of `x` may have further keys.
std::string lacks(const msgpack::object& x, const msgpack::object& said,
                  const std::string& path = {}) {
  if (x.type != said.type)
    return path + " is of another type";
  if (x.type == msgpack::type::ARRAY) {
    if (x.via.array.size != said.via.array.size)
      return path + " has another length";
    for (uint32_t i = 0; i < x.via.array.size; ++i)
      if (auto why =
            lacks(x.via.array.ptr[i], said.via.array.ptr[i], path + "[]");
          !why.empty())
        return why;
    return {};
  }
  if (x.type != msgpack::type::MAP)
    return x == said ? "" : path + " has another value";
  for (auto& [key, value] : said.via.map) {
    auto name = path + "." + key.as<std::string>();
    if (given_up.contains(name))
      continue;
    auto* there = std::find_if(begin(x.via.map), end(x.via.map),
                               [&key = key](auto& y) { return y.key == key; });
    if (there == end(x.via.map))
      return name + " is gone";
    if (auto why = lacks(there->val, value, name); !why.empty())
      return why;
  }
  return {};
}

std::string lacks(const_bytes x, const_bytes said) {
  auto unpack = [](const_bytes y) {
    return msgpack::unpack(reinterpret_cast<const char*>(y.data()), y.size());
  };
  return lacks(unpack(x).get(), unpack(said).get());
}

/// The map with one further, unknown key.
std::string with_news(const_bytes map) {
  std::string out{reinterpret_cast<const char*>(map.data()), map.size()};
  auto n = static_cast<unsigned char>(out[0]);
  if (n == 0xde) {
    REQUIRE(++out[2] != 0);
  } else {
    REQUIRE((n >= 0x80 && n < 0x8f));
    ++out[0];
  }
  return out
         + "\xa4news\x82\xa1"
           "a\x92\x01\xc0\xa1"
           "b\x81\xa1"
           "c\xc3";
}

/// The encoding of a value with all its fields.
template <declared T>
shared_bytes written(const T& x, golden_frames& by) {
  encoder out{by.now(), &by};
  out.put(x);
  return out.take_body();
}

template <declared T>
void check_body(const_bytes body, std::span<const shared_bytes> raw,
                const_bytes golden_body, golden_frames& by) {
  decode_context ctx{by.now(), &by, raw, 0};
  auto x = decode<T>(body, ctx);
  REQUIRE_MESSAGE(x, why(x));
  CHECK(lacks(written(*x, by).view(), golden_body) == "");
  CHECK(lacks(written(by.message<T>(), by).view(), golden_body) == "");
}

template <declared T>
void check_frames(const fs::path& folder, golden_frames& by) {
  INFO(std::string{T::record_name()});
  auto file = folder / T::record_name();
  if (!fs::exists(file))
    return; // the message is newer than the files
  auto text = read_file(file.string(), 1 << 20);
  REQUIRE(text);
  auto frames = fuzz::split_frames(std::as_bytes(std::span{*text}));
  REQUIRE(!frames.empty());
  auto raw = std::span{frames}.subspan(1);
  auto first = frames[0].view();
  auto opened = open_frame(first, by.now());
  REQUIRE_MESSAGE(opened, why(opened));
  CHECK(opened->head.t == T::record_name());
  auto head = first.first(first.size() - opened->body.size());
  CHECK(lacks(written(opened->head, by).view(), head) == "");
  CHECK(lacks(written(by.head(T::record_name()), by).view(), head) == "");
  check_body<T>(opened->body, raw, opened->body, by);
  // The same frame from a release with further fields.
  auto more = with_news(head) + with_news(opened->body);
  auto newer = open_frame(std::as_bytes(std::span{more}), by.now());
  REQUIRE(newer);
  CHECK(newer->head == opened->head);
  check_body<T>(newer->body, raw, opened->body, by);
}

template <class... Ts>
void check_all(const fs::path& folder, std::tuple<Ts...>*) {
  golden_frames by;
  (check_frames<Ts>(folder, by), ...);
}

/// Checks that the current encoding writes every field that is not at its
/// default.
template <declared T>
void check_complete(golden_frames& by) {
  INFO(std::string{T::record_name()});
  auto x = make_wire_message(by.message<T>(), by.now(), &by);
  CHECK(lacks(x.body.view(), written(by.message<T>(), by).view()) == "");
}

template <class... Ts>
void check_all_complete(std::tuple<Ts...>*) {
  golden_frames by;
  (check_complete<Ts>(by), ...);
}

} // namespace

TEST_CASE("P16: frames of the previous release are decoded") {
  auto folder = golden / "frames";
  size_t found = 0;
  for (auto& x : fs::directory_iterator{folder}) {
    INFO(x.path().filename().string() << " is no message any more");
    CHECK(find_message_type(x.path().filename().string()) != nullptr);
    ++found;
  }
  CHECK(found > 30);
  check_all(folder, static_cast<all_messages*>(nullptr));
}

TEST_CASE("P16: the output of golden_files has each field of each message and "
          "is decoded") {
  temporary_directory fresh;
  auto done = write_golden(fresh.path());
  REQUIRE_MESSAGE(done, why(done));
  auto all = static_cast<all_messages*>(nullptr);
  check_all_complete(all);
  check_all(fresh / "frames", all);
  for (auto type : message_names())
    CHECK(fs::exists(fresh / "frames/" + std::string{type}));
}

TEST_CASE("P16: every byte of a bundle of the previous release is read") {
  bundle_store store{(golden / "bundles").string()};
  auto list = store.list();
  CHECK(list.broken.empty());
  REQUIRE(list.good.size() == 1);
  CHECK(list.good[0].aliases == std::vector<std::string>{"default", "stable"});
  auto x = store.open("golden", "stable", verify::hashes);
  REQUIRE_MESSAGE(x, why(x));
  CHECK(x->info == golden_manifest());
  REQUIRE(x->weights.size() == 1);
  CHECK(x->weights[0].name == "model.weight");
  CHECK(x->weights[0].value == golden_parameter());
}

TEST_CASE("P16: the journals of the previous release are read") {
  auto file = (golden / "data" / facts_file).string();
  auto text = read_file(file, 1 << 20);
  REQUIRE(text);
  auto facts = read_facts(*text, file);
  REQUIRE_MESSAGE(facts, why(facts));
  CHECK_FALSE(facts->damage);
  CHECK(facts->schema == 1);
  auto rows = facts->rows.rows(golden_table);
  auto wanted = golden_rows();
  REQUIRE(rows.size() == wanted.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].key == wanted[i].first);
    CHECK(rows[i].version == 1);
    auto value = std::as_bytes(std::span{rows[i].value});
    CHECK(lacks(std::as_bytes(std::span{wanted[i].second}), value) == "");
    decode_context ctx;
    auto row = decode<model_row>(value, ctx);
    REQUIRE(row);
    encoder out{{}, nullptr};
    out.put(*row);
    CHECK(lacks(out.take_body().view(), value) == "");
  }
  auto part = read_file((golden / "data/audit" / audit_file).string(), 1 << 20);
  REQUIRE(part);
  std::vector<std::string> lines;
  CHECK(read_audit({*part}, lines) == "");
  auto said = golden_lines();
  REQUIRE(lines.size() >= said.size());
  CHECK(std::equal(said.begin(), said.end(), lines.end() - 2));
}
