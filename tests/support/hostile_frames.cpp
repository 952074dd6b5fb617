// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hostile_frames.hpp"

#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

using namespace std::string_literals;

namespace millrace::test {

namespace {

// -- MessagePack by hand ------------------------------------------------------

std::string big_endian(uint64_t x, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i)
    out += static_cast<char>(x >> (8 * i));
  return out;
}

std::string text(std::string_view x) {
  auto n = x.size();
  auto size = n < 32       ? std::string(1, static_cast<char>(0xa0 + n))
              : n < 65'536 ? "\xda" + big_endian(n, 2)
                           : "\xdb" + big_endian(n, 4);
  return size.append(x);
}

std::string bytes(std::string_view x) {
  auto size = x.size() < 65'536 ? "\xc5" + big_endian(x.size(), 2)
                                : "\xc6" + big_endian(x.size(), 4);
  return size.append(x);
}

std::string number(int64_t x) {
  return "\xd3" + big_endian(static_cast<uint64_t>(x), 8);
}

std::string large(uint64_t x) {
  return "\xcf" + big_endian(x, 8);
}

std::string real(double x) {
  return "\xcb" + big_endian(std::bit_cast<uint64_t>(x), 8);
}

std::string list(const std::vector<std::string>& xs) {
  auto out = "\xdc" + big_endian(xs.size(), 2);
  for (auto& x : xs)
    out += x;
  return out;
}

struct entry {
  std::string key;
  std::string value;
};

std::string map(const std::vector<entry>& xs) {
  auto out = "\xde" + big_endian(xs.size(), 2);
  for (auto& x : xs)
    out += text(x.key) + x.value;
  return out;
}

// -- messages -----------------------------------------------------------------

std::string a_header(std::vector<entry> more = {}) {
  more.insert(more.begin(),
              {{"v", "\x02"}, {"t", text("infer")}, {"id", "\x01"}});
  return map(more);
}

std::string numbers(size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i)
    out += "\0\0\x80\x3f"s;
  return out;
}

std::string tensor_of(std::string_view dtype, const std::vector<int64_t>& shape,
                      const std::string& data) {
  std::vector<std::string> extents;
  for (auto x : shape)
    extents.push_back(number(x));
  return map(
    {{"dtype", text(dtype)}, {"shape", list(extents)}, {"data", data}});
}

std::string good_tensor() {
  return tensor_of("F32", {1, 4}, bytes(numbers(4)));
}

entry model() {
  return {"model", text("identity")};
}

entry inputs(const std::vector<std::string>& xs) {
  return {"inputs", list(xs)};
}

/// A good request with additional entries.
std::string request(std::vector<entry> more = {}) {
  more.insert(more.begin(), {model(), inputs({good_tensor()})});
  return map(more);
}

/// The start of a good request up to its last key; the value is missing.
std::string before(std::string_view key) {
  return "\x82" + text("model") + text("identity") + text(key);
}

hostile_frame refused(std::string item, std::string first, std::string says,
                      ec status = ec::bad_request) {
  return {
    std::move(item), std::move(first), {}, status, std::move(says), 1, false};
}

/// A frame with an unreadable header.
hostile_frame unread(std::string item, std::string first, std::string says) {
  return {std::move(item),
          std::move(first),
          {},
          ec::bad_request,
          std::move(says),
          0,
          false};
}

/// A frame that decodes and that the gateway must refuse.
hostile_frame decoded(std::string item, std::string first, ec status,
                      std::string says) {
  return {
    std::move(item), std::move(first), {}, status, std::move(says), 1, true};
}

using frames = std::vector<hostile_frame>;

void add(frames& to, frames&& xs) {
  to.insert(to.end(), std::make_move_iterator(xs.begin()),
            std::make_move_iterator(xs.end()));
}

frames versions_and_keys() {
  return {
    unread("wrong magic", "GIF89a",
           "header: the message has something else than a map"),
    unread("wrong version", map({{"v", "\x01"}, {"t", text("infer")}}),
           "protocol version 1 is not supported here (expected 2 in header key"
           " 'v')"),
    unread("no version", map({{"t", text("infer")}}),
           "protocol version 0 is not supported here (expected 2 in header key"
           " 'v')"),
    unread("version too large", map({{"v", large(UINT64_MAX)}}),
           "header: the message has something else than an integer in range at"
           " key 'v'"),
    unread("duplicate key of a header", a_header({{"id", "\x02"}}),
           "header: the message has a key twice at key 'id'"),
    refused("duplicate key of a body", a_header() + request({model()}),
            "the message has a key twice at key 'model'"),
    refused("duplicate key of a tensor",
            a_header()
              + map({inputs({map({{"dtype", text("F32")},
                                  {"data", bytes("")},
                                  {"data", bytes("")}})})}),
            "the message has a key twice at key 'inputs.data'"),
    decoded("unknown key",
            a_header({{"new", "\xc0"}})
              + request({{"new", list({map({{"a", "\xc3"}}), "\xc0"})}}),
            ec::ok, ""),
    decoded("key order",
            map({{"id", "\x01"}, {"t", text("infer")}, {"v", "\x02"}})
              + map({inputs({good_tensor()}), model()}),
            ec::ok, ""),
    refused("key that is no text", a_header() + "\x81\x05\x05",
            "the message has a key that is no text"),
    refused("container as a key", a_header() + "\x81\x90\x05",
            "the message has a container as a key"),
    unread("type that is no text", map({{"t", "\x05"}}),
           "header: the message has something else than a text at key 't'"),
  };
}

frames claims_and_depths() {
  auto cut = [](std::string item, std::string_view key, std::string claim) {
    auto first = a_header() + before(key) + claim;
    auto at = std::to_string(first.size() - a_header().size());
    return refused(std::move(item), first,
                   "the message ends at byte " + at
                     + " in the middle of a value");
  };
  auto deep = std::string(1'000'000, '\x91');
  return {
    cut("text that claims more than its body", "version",
        "\xdb" + big_endian(100, 4)),
    cut("text of 2^32 - 1", "version", "\xdb\xff\xff\xff\xff"),
    cut("bin of 2^32 - 1", "version", "\xc6\xff\xff\xff\xff"),
    cut("ext of 2^32 - 1", "version", "\xc9\xff\xff\xff\xff"),
    refused("array of 2^32 - 1",
            a_header() + before("inputs") + "\xdd\xff\xff\xff\xff",
            "the message has an array of more than 65536 elements at key"
            " 'inputs'",
            ec::too_large),
    refused("map of 2^32 - 1",
            a_header() + before("inputs") + "\xdf\xff\xff\xff\xff",
            "the message has a map of more than 4096 entries at key 'inputs'",
            ec::too_large),
    refused("array of more than fit",
            a_header() + before("inputs") + "\xdc\xea\x60"
              + std::string(60'000, '\x80'),
            "the message has more elements than there is room for (expected an"
            " array) at key 'inputs'",
            ec::too_large),
    refused("map that claims more than its body", a_header() + "\x8f",
            "the message ends at byte 1 in the middle of a value"),
    unread("bytes behind the end", a_header() + request() + "rubbish",
           "header: the message has something else than a map"),
    refused("depth of a million", a_header() + before("new") + deep,
            "the message has more than 12 levels at key 'new'", ec::too_large),
    {"depth of a million in a header",
     map({{"new", deep}}),
     {},
     ec::too_large,
     "the first frame does not begin with a header of at most 4096 bytes: the"
     " message has more than 12 levels at key 'new'",
     0,
     false},
    {"header over its limit",
     a_header({{"trace", text(std::string(5000, 't'))}}),
     {},
     ec::too_large,
     "the first frame does not begin with a header of at most 4096 bytes: the"
     " message ends at byte 27 in the middle of a value",
     0,
     false},
    refused("text over its limit",
            a_header() + before("new") + text(std::string(1 + (1 << 20), 't')),
            "the message has a text of more than 1 MiB at key 'new'",
            ec::too_large),
    refused("body over its limit",
            a_header() + request({{"new", bytes(std::string(5 << 20, 'x'))}}),
            "the message has more than 4 MiB", ec::too_large),
    refused("ext where a text belongs",
            a_header() + before("version") + "\xd4\x01\x01",
            "the message has something else than a text or a whole number at"
            " key 'version'"),
    refused("no body", a_header(),
            "the message ends at byte 0 in the middle of a value"),
    unread("no byte", "",
           "header: the message ends at byte 0 in the middle of a value"),
  };
}

/// Frames of one byte, one for each value.
frames single_bytes() {
  auto begins_more = [](unsigned x) {
    return (x > 0x80 && x < 0x90) || (x > 0xa0 && x < 0xc0)
           || (x > 0xc3 && x < 0xe0);
  };
  frames out;
  for (unsigned x = 0; x < 256; ++x) {
    std::string says = "header: the message has something else than a map";
    if (x == 0x80)
      says =
        "protocol version 0 is not supported here (expected 2 in header key"
        " 'v')";
    else if (x == 0xc1)
      says = "header: the message is not MessagePack at byte 0";
    else if (begins_more(x))
      says = "header: the message ends at byte 1 in the middle of a value";
    out.push_back(unread("frame of one byte, " + std::to_string(x),
                         std::string(1, static_cast<char>(x)), says));
  }
  return out;
}

frames deadlines() {
  auto with = [](const std::string& left) {
    return a_header({{"left", left}}) + request();
  };
  constexpr auto no_time = "header: the message has something else than"
                           " microseconds left, at most a year at key 'left'";
  constexpr auto late = "no time was left on arrival";
  return {
    unread("deadline that is no number", with(real(NAN)), no_time),
    unread("deadline without end", with(real(INFINITY)), no_time),
    unread("deadline of 2^63 - 1", with(number(INT64_MAX)), no_time),
    unread("deadline of 2^64 - 1", with(large(UINT64_MAX)), no_time),
    unread("deadline in a year and a bit", with(number(31'536'000'000'001)),
           no_time),
    decoded("deadline in a year", with(number(31'536'000'000'000)), ec::ok, ""),
    decoded("deadline of nothing", with(number(0)), ec::deadline_exceeded,
            late),
    decoded("negative deadline", with(number(-1)), ec::deadline_exceeded, late),
    decoded("deadline of -2^63", with(number(INT64_MIN)), ec::deadline_exceeded,
            late),
  };
}

frames names() {
  auto of = [](std::string_view key, std::string_view value) {
    return a_header()
           + map({{std::string{key}, text(value)}, inputs({good_tensor()})});
  };
  auto named = [&](std::string_view name) {
    auto x = good_tensor();
    ++x[2]; // one more entry
    return x + text("name") + text(name);
  };
  constexpr auto others = "the model takes the inputs x:F32[-1, 4]; the request"
                          " has an unknown input, or one twice";
  return {
    refused("embedded NUL", of("model", "identity\0x"s),
            "the message has the unprintable name 'identity\\x00x'"
            " (expected UTF-8 without control characters) at key 'model'"),
    refused("invalid UTF-8", of("model", "\xff\xc0\xaf"),
            "the message has the unprintable name '\\xff\\xc0\\xaf'"
            " (expected UTF-8 without control characters) at key 'model'"),
    refused("escape sequence", of("application", "a\x1b[2J"),
            "the message has the unprintable name 'a\\x1b[2J'"
            " (expected UTF-8 without control characters) at key"
            " 'application'"),
    decoded("no name at all", a_header() + map({inputs({good_tensor()})}),
            ec::bad_request,
            "the request names neither 'model' nor 'application'"),
    refused("embedded NUL and invalid UTF-8 in a key",
            a_header() + before("new\0\xff"s) + std::string(99, '\x91'),
            "the message has more than 12 levels at key 'new\\x00\\xff'",
            ec::too_large),
    decoded("input of a reserved name",
            a_header() + map({model(), inputs({named("__metadata__")})}),
            ec::bad_request, "no input is named 'x'"),
    decoded("input twice",
            a_header() + map({model(), inputs({named("x"), named("x")})}),
            ec::bad_request, others),
  };
}

frames extents() {
  auto with = [](std::string_view dtype, const std::vector<int64_t>& shape,
                 const std::string& data) {
    return a_header()
           + map({model(), inputs({tensor_of(dtype, shape, bytes(data))})});
  };
  auto none = [](const std::string& why) {
    return "the message has a tensor that is none: " + why + " at key 'inputs'";
  };
  constexpr auto many = "the message has more elements than there is room for"
                        " (expected at most 8 extents) at key 'inputs.shape'";
  auto beyond = tensor_of("U8", {}, bytes("x"));
  beyond.replace(beyond.find("\xdc\0\0"s), 3,
                 "\xdc\0\x01"s + large(UINT64_MAX));
  return {
    refused("product overflow",
            with("U8", {4194305, 4194305, 211106198978564}, "1234"),
            none("shape [4194305, 4194305, 211106198978564] has more bytes than"
                 " fit in 63 bits")),
    refused("product overflow by the size of an element",
            with("F64", {INT64_MAX / 4}, ""),
            none("shape [2305843009213693951] has more bytes than fit in 63"
                 " bits")),
    decoded("zero dimension", with("F32", {0, 4}, ""), ec::bad_request,
            "model 'identity': the inputs have no rows"),
    decoded("zero dimension beside a huge one", with("F32", {0, INT64_MAX}, ""),
            ec::bad_request,
            "model 'identity': expected x:F32[-1, 4], got F32[0,"
            " 9223372036854775807]"),
    refused("zero dimension with bytes", with("F32", {0, 4}, numbers(4)),
            none("F32[0, 4] needs 0 bytes, got 16")),
    refused("negative dimension", with("F32", {-1, 4}, numbers(4)),
            none("shape [-1, 4] has a negative extent")),
    refused("dimension of -2^63", with("F32", {INT64_MIN, 4}, numbers(4)),
            none("shape [-9223372036854775808, 4] has a negative extent")),
    refused("dimension of 2^64 - 1", a_header() + map({inputs({beyond})}),
            "the message has something else than an integer in range at key"
            " 'inputs.shape'"),
    refused("9 dimensions",
            with("F32", {1, 1, 1, 1, 1, 1, 1, 1, 1}, numbers(1)), many,
            ec::too_large),
    refused("65 dimensions",
            with("F32", std::vector<int64_t>(65, 1), numbers(1)), many,
            ec::too_large),
    refused("no shape",
            a_header()
              + map({inputs(
                {map({{"dtype", text("F32")}, {"data", bytes(numbers(4))}})})}),
            none("F32[] needs 4 bytes, got 16")),
    refused("shape that is no array",
            a_header() + map({inputs({map({{"shape", "\x04"}})})}),
            "the message has something else than at most 8 extents at key"
            " 'inputs.shape'"),
    decoded("another shape than the model's", with("F32", {4}, numbers(4)),
            ec::bad_request,
            "model 'identity': expected x:F32[-1, 4], got F32[4]"),
  };
}

frames dtypes_and_bytes() {
  auto with = [](const std::string& x, std::vector<std::string> raw = {}) {
    auto out = refused("", a_header() + map({model(), inputs({x})}), "");
    out.raw = std::move(raw);
    return out;
  };
  auto says = [](std::string item, hostile_frame x, std::string what) {
    x.item = std::move(item);
    x.says = "the message has " + what;
    return x;
  };
  auto short_of = [](size_t n) {
    return "a tensor that is none: F32[1, 4] needs 16 bytes, got "
           + std::to_string(n) + " at key 'inputs'";
  };
  auto whole = bytes(numbers(4));
  frames out{
    says("one byte too few",
         with(tensor_of("F32", {1, 4}, bytes(numbers(4).substr(1)))),
         short_of(15)),
    says("one byte too many",
         with(tensor_of("F32", {1, 4}, bytes(numbers(4) + "x"))), short_of(17)),
    says("no bytes", with(tensor_of("F32", {1, 4}, bytes(""))), short_of(0)),
    says("frame too short", with(tensor_of("F32", {1, 4}, number(0)), {"123"}),
         short_of(3)),
    says("bytes that are a text", with(tensor_of("F32", {1, 4}, text("x"))),
         "something else than bytes or the number of a frame at key"
         " 'inputs.data'"),
    says("input that is no tensor", with("\x05"),
         "something else than name, dtype, shape and data of just as many bytes"
         " at key 'inputs'"),
    decoded("another dtype than the model's",
            a_header()
              + map({model(), inputs({tensor_of("I32", {1, 4}, whole)})}),
            ec::bad_request,
            "model 'identity': expected x:F32[-1, 4], got I32[1, 4]"),
    decoded("more inputs than the model has",
            a_header() + map({model(), inputs({good_tensor(), good_tensor()})}),
            ec::bad_request,
            "model 'identity': expected 1 input(s) (x:F32[-1, 4]), got 2"),
    decoded("NaN among the values",
            a_header()
              + map({model(), inputs({tensor_of(
                                "F32", {1, 4},
                                bytes(numbers(3) + "\xff\xff\xff\xff"))})}),
            ec::ok, ""),
  };
  // Frame indices before the first frame, after the last, and out of range.
  for (auto& at : {number(-1), number(1), number(INT64_MAX), number(INT64_MIN),
                   large(UINT64_MAX)})
    out.push_back(says("frame that is not there",
                       with(tensor_of("F32", {1, 4}, at), {numbers(4)}),
                       "something else than bytes or the number of a frame at"
                       " key 'inputs.data'"));
  // Python objects (a pickle is code), lists of texts, other spellings.
  for (auto& dtype :
       {"O"s, "|O"s, "object"s, "BYTES"s, "F33"s, "f32"s, ""s, "F32\0"s})
    out.push_back(says("dtype " + dtype, with(tensor_of(dtype, {1, 4}, whole)),
                       "something else than one of BOOL, U8, I8, I16, I32, I64,"
                       " F16, BF16, F32, F64 at key 'inputs.dtype'"));
  return out;
}

} // namespace

frames hostile_envelopes() {
  frames out;
  for (auto part :
       {versions_and_keys, claims_and_depths, single_bytes, deadlines, names})
    add(out, part());
  return out;
}

frames hostile_tensors() {
  frames out;
  add(out, extents());
  add(out, dtypes_and_bytes());
  return out;
}

} // namespace millrace::test
