// SPDX-License-Identifier: Apache-2.0
#include "transport/codec.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include <msgpack.hpp>

#include "runtime/name.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace detail {

namespace {

bool take_rank(void* x, decode_context&, uint32_t n) {
  as<shape>(x) = {};
  return n <= shape::max_rank;
}

slot next_extent(void* x) {
  auto& s = as<shape>(x);
  auto grown = s.rank() + 1;
  std::array<int64_t, shape::max_rank> extents{};
  std::copy(s.begin(), s.end(), extents.begin());
  s = *shape::of({extents.data(), grown});
  return {&s[grown - 1], &kind_of<int64_t>()};
}

slot tensor_key(tensor& x, std::string_view key) {
  if (key == "dtype")
    return {&x.type, &kind_of<dtype>(), 0};
  if (key == "shape")
    return {&x.extents, &kind_of<shape>(), 1};
  if (key == "data")
    return {&x.data, &kind_of<shared_bytes>(), 2};
  return {};
}

/// Compares the number of bytes with the extents.
bool check_tensor(const tensor& x) {
  auto n = dense_bytes(x.type, x.extents);
  return n && *n == x.data.size();
}

std::string why_no_tensor(const tensor& x) {
  return "a tensor that is none: "
         + tensor::make(x.type, x.extents, x.data).failure().text;
}

bool take_any(void*, decode_context&, uint32_t) {
  return true;
}

} // namespace

const slot_kind kind<shape>::value{
  .expected = "at most 8 extents", .array = take_rank, .element = next_extent};

const slot_kind kind<tensor>::value{
  .expected = "dtype, shape and data of just as many bytes",
  .map = take_any,
  .key = [](void* x, decode_context&,
            std::string_view key) { return tensor_key(as<tensor>(x), key); },
  .finish = [](void* x,
               decode_context&) { return check_tensor(as<tensor>(x)); },
  .objection = [](void* x) { return why_no_tensor(as<tensor>(x)); }};

const slot_kind kind<named_tensor>::value{
  .expected = "name, dtype, shape and data of just as many bytes",
  .map = take_any,
  .key = [](void* x, decode_context&, std::string_view key) -> slot {
    auto& y = as<named_tensor>(x);
    if (key == "name")
      return {&y.name, &kind_of<std::string>(), 3};
    return tensor_key(y.value, key);
  },
  .finish =
    [](void* x, decode_context&) {
      return check_tensor(as<named_tensor>(x).value);
    },
  .objection =
    [](void* x) { return why_no_tensor(as<named_tensor>(x).value); }};

} // namespace detail

namespace {

/// Fields that hold names, in any message. Texts for people, such as errors,
/// are in other fields: they may contain any character and are cleaned before
/// they are printed.
bool holds_name(std::string_view field) {
  static constexpr std::string_view fields[]{
    "actor",   "address",  "alias",  "aliases", "application", "cluster",
    "content", "contents", "device", "devices", "groups",      "host",
    "hosts",   "id",       "kind",   "model",   "models",      "name",
    "node",    "nodes",    "parent", "policy",  "rack",        "replica",
    "role",    "replicas", "roles",  "router",  "scope",       "scopes",
    "tenant",  "tenants",  "version"};
  return std::find(std::begin(fields), std::end(fields), field)
         != std::end(fields);
}

std::string unprintable(const char* what, std::string_view text) {
  return std::string{"the unprintable "} + what + " " + shown(text, 64)
         + " (expected UTF-8 without control characters)";
}

/// Receives MessagePack tokens and stores each in the target given by the
/// innermost open array or map. The stack has a fixed size, which bounds the
/// depth.
class slot_visitor {
public:
  slot_visitor(slot root, decode_context& ctx) : next_(root), ctx_(ctx) {}

  bool visit_nil() { return give(&slot_kind::nil); }
  bool visit_boolean(bool x) { return give(&slot_kind::boolean, x); }
  bool visit_positive_integer(uint64_t x) {
    return x <= INT64_MAX ? visit_negative_integer(static_cast<int64_t>(x))
                          : give(&slot_kind::large, x);
  }
  bool visit_negative_integer(int64_t x) {
    return give(&slot_kind::integer, ctx_, x);
  }
  bool visit_float32(float x) { return visit_float64(x); }
  bool visit_float64(double x) { return give(&slot_kind::real, x); }

  bool visit_str(const char* data, uint32_t n) {
    if (n > codec_limits::text)
      return over("a text of more than 1 MiB");
    std::string_view x{data, n};
    if (in_key_)
      return take_key(x);
    if (next_.kind != nullptr && !is_plain(x) && holds_name(field()))
      return refuse(unprintable("name", x));
    return give(&slot_kind::text, ctx_, x);
  }

  bool visit_bin(const char* data, uint32_t n) {
    return give(&slot_kind::raw, ctx_, std::as_bytes(std::span{data, n}));
  }
  bool visit_ext(const char*, uint32_t) {
    return next_.kind == nullptr || wrong();
  }

  bool start_array(uint32_t n) {
    if (n > codec_limits::array)
      return over("an array of more than 65536 elements");
    if (!push())
      return false;
    if (next_.kind == nullptr)
      return true;
    if (next_.kind->array == nullptr)
      return wrong();
    return next_.kind->array(next_.target, ctx_, n)
           || over(
             std::string{"more elements than there is room for (expected "}
             + next_.kind->expected + ")");
  }

  bool start_array_item() {
    auto& open = stack_[depth_ - 1];
    next_ = open.owner.kind == nullptr
              ? slot{}
              : open.owner.kind->element(open.owner.target);
    return true;
  }
  bool end_array_item() { return true; }
  bool end_array() { return pop(); }

  bool start_map(uint32_t n) {
    if (in_key_)
      return refuse("a map as a key");
    if (n > codec_limits::map)
      return over("a map of more than 4096 entries");
    if (!push())
      return false;
    if (next_.kind == nullptr)
      return true;
    if (next_.kind->map == nullptr)
      return wrong();
    return next_.kind->map(next_.target, ctx_, n)
           || over("more entries than the message has room for");
  }

  bool start_map_key() {
    in_key_ = true;
    next_ = {};
    got_key_ = false;
    return true;
  }

  bool end_map_key() {
    in_key_ = false;
    auto& open = stack_[depth_ - 1];
    return got_key_ || open.owner.kind == nullptr
           || refuse("a key that is no text");
  }
  bool start_map_value() { return true; }
  bool end_map_value() { return true; }
  bool end_map() { return pop(); }

  void parse_error(size_t, size_t at) {
    if (!error_)
      error_ = bad("is not MessagePack at byte " + std::to_string(at));
  }
  void insufficient_bytes(size_t, size_t at) {
    if (!error_)
      error_ =
        bad("ends at byte " + std::to_string(at) + " in the middle of a value");
  }

  std::optional<error> failure() { return std::move(error_); }

private:
  struct open_value {
    slot owner;
    uint64_t seen = 0;    ///< bit set of the record's fields found so far
    std::string_view key; ///< last key found, in the input
  };

  /// Stores a value in the next target, if the target accepts its kind.
  template <class Take, class... Ts>
  bool give(Take slot_kind::*how, Ts&&... x) {
    if (next_.kind == nullptr)
      return true;
    auto take = next_.kind->*how;
    return (take != nullptr && take(next_.target, std::forward<Ts>(x)...))
           || wrong();
  }

  static error bad(std::string why) {
    return {ec::bad_request, "the message " + std::move(why), {}};
  }

  bool refuse(const std::string& why) {
    auto at = path();
    error_ = bad("has " + why
                 + (at.empty() ? std::string{} : " at key " + shown(at, 64)));
    return false;
  }

  std::string path() const {
    std::string out;
    for (size_t i = 0; i < depth_; ++i)
      if (auto key = stack_[i].key.substr(0, 64); !key.empty())
        out.append(out.empty() ? "" : ".").append(key);
    return out;
  }

  /// The key of the next value, or of the array that contains it.
  std::string_view field() const {
    for (auto i = depth_; i-- > 0;)
      if (!stack_[i].key.empty())
        return stack_[i].key;
    return {};
  }

  bool over(const std::string& why) {
    refuse(why);
    error_->code = ec::too_large;
    return false;
  }

  bool wrong() {
    return refuse(std::string{"something else than "} + next_.kind->expected);
  }

  bool take_key(std::string_view x) {
    got_key_ = true;
    auto& open = stack_[depth_ - 1];
    if (open.owner.kind == nullptr) {
      next_ = {};
      return true;
    }
    open.key = x;
    next_ = open.owner.kind->key(open.owner.target, ctx_, x);
    if (next_.field < 0) // unknown field, or key of a map
      return next_.kind == nullptr || is_plain(x)
             || refuse(unprintable("key", x));
    auto bit = uint64_t{1} << (next_.field & 63);
    if ((open.seen & bit) != 0)
      return refuse("a key twice");
    open.seen |= bit;
    return true;
  }

  bool push() {
    if (in_key_)
      return refuse("a container as a key");
    if (depth_ == stack_.size())
      return over("more than 12 levels");
    stack_[depth_++] = {next_, 0, {}};
    return true;
  }

  bool pop() {
    auto& open = stack_[--depth_];
    if (open.owner.kind == nullptr || open.owner.kind->finish == nullptr)
      return true;
    next_ = open.owner;
    auto& owner = open.owner;
    if (owner.kind->finish(owner.target, ctx_))
      return true;
    return owner.kind->objection == nullptr
             ? wrong()
             : refuse(owner.kind->objection(owner.target));
  }

  std::array<open_value, codec_limits::depth> stack_;
  size_t depth_ = 0;
  slot next_;
  bool in_key_ = false;
  bool got_key_ = false;
  decode_context& ctx_;
  std::optional<error> error_;
};

} // namespace

std::string printed(const_bytes value) try {
  const msgpack::unpack_limit few{1024, 1024, 4096, 4096, 0, 16};
  auto x = msgpack::unpack(reinterpret_cast<const char*>(value.data()),
                           value.size(), nullptr, nullptr, few);
  std::ostringstream out;
  out << x.get();
  return out.str();
} catch (const msgpack::unpack_error&) {
  return "(" + std::to_string(value.size()) + " bytes)";
}

std::optional<size_t> size_of_value(const_bytes input) {
  struct : msgpack::null_visitor {
    size_t depth = 0;
    bool start_array(uint32_t) { return ++depth <= 512; }
    bool start_map(uint32_t) { return ++depth <= 512; }
    bool end_array() { return depth-- > 0; }
    bool end_map() { return depth-- > 0; }
    void parse_error(size_t, size_t) {}
    void insufficient_bytes(size_t, size_t) {}
  } walk;
  size_t at = 0;
  if (!msgpack::parse(reinterpret_cast<const char*>(input.data()), input.size(),
                      at, walk))
    return std::nullopt;
  return at;
}

result<size_t> decode_front(slot target, const_bytes input,
                            decode_context& ctx) {
  ctx.budget = decode_budget(input.size());
  return decode_next(target, input, ctx);
}

result<size_t> decode_next(slot target, const_bytes input,
                           decode_context& ctx) {
  if (input.size() > codec_limits::body_bytes)
    return error{ec::too_large, "the message has more than 4 MiB", {}};
  slot_visitor visitor{target, ctx};
  size_t at = 0;
  auto parsed = msgpack::parse(reinterpret_cast<const char*>(input.data()),
                               input.size(), at, visitor);
  if (auto failed = visitor.failure())
    return *failed;
  if (!parsed)
    return error{ec::bad_request, "the message is not MessagePack", {}};
  return at;
}

result<void> decode_into(slot target, const_bytes body, decode_context& ctx) {
  auto n = decode_front(target, body, ctx);
  if (!n)
    return n.failure();
  if (*n != body.size())
    return error{ec::bad_request,
                 "the message has " + std::to_string(body.size() - *n)
                   + " bytes after its end",
                 {}};
  return {};
}

} // namespace millrace
