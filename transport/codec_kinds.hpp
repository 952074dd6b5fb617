// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The conversion of decoded values into each type. Part of codec.hpp.

namespace millrace::detail {

template <class T>
T& as(void* target) {
  return *static_cast<T*>(target);
}

/// Charges n elements to the budget before they are allocated.
inline bool spend(decode_context& ctx, size_t n, size_t size) {
  auto all = product(n, size);
  if (!all || *all > ctx.budget)
    return false;
  ctx.budget -= *all;
  return true;
}

template <class T>
struct kind; // specialised below

template <>
struct kind<bool> {
  static constexpr slot_kind value{
    .expected = "true or false",
    .boolean = [](void* x, bool y) { return as<bool>(x) = y, true; }};
};

template <std::integral T>
struct kind<T> {
  static bool take(void* target, decode_context&, int64_t number) {
    if (!std::in_range<T>(number))
      return false;
    as<T>(target) = static_cast<T>(number);
    return true;
  }
  static bool take_large(void* target, uint64_t number) {
    if constexpr (std::same_as<T, uint64_t>)
      return as<T>(target) = number, true;
    return false;
  }
  static constexpr slot_kind value{
    .expected = "an integer in range", .integer = take, .large = take_large};
};

template <>
struct kind<double> {
  static constexpr slot_kind value{
    .expected = "a number",
    .integer =
      [](void* x, decode_context&, int64_t y) {
        return as<double>(x) = static_cast<double>(y), true;
      },
    .real = [](void* x, double y) { return as<double>(x) = y, true; }};
};

template <>
struct kind<std::string> {
  static constexpr slot_kind value{
    .expected = "a text",
    .text = [](void* x, decode_context& ctx, std::string_view y) {
      return spend(ctx, y.size(), 1) && (as<std::string>(x).assign(y), true);
    }};
};

/// A text that may be encoded as a whole number.
template <std::derived_from<std::string> T>
struct kind<T> {
  static bool take(std::string& target, decode_context& ctx,
                   std::string_view text) {
    return spend(ctx, text.size(), 1) && (target.assign(text), true);
  }
  static constexpr slot_kind value{
    .expected = "a text or a whole number",
    .integer =
      [](void* x, decode_context& ctx, int64_t y) {
        return y >= 0 && take(as<T>(x), ctx, std::to_string(y));
      },
    .text = [](void* x, decode_context& ctx,
               std::string_view y) { return take(as<T>(x), ctx, y); }};
};

/// "one of A, B, C", from the names of an enum.
template <named_enum T>
struct one_of {
  static constexpr auto names = names_of(T{});
  static constexpr std::string_view start = "one of ";
  static constexpr size_t length() {
    auto n = start.size() + 2 * (names.size() - 1) + 1;
    for (auto x : names)
      n += x.size();
    return n;
  }
  static constexpr auto write() {
    std::array<char, length()> out{};
    auto at = std::copy(start.begin(), start.end(), out.begin());
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0) {
        *at++ = ',';
        *at++ = ' ';
      }
      at = std::copy(names[i].begin(), names[i].end(), at);
    }
    return out;
  }
  static constexpr auto text = write();
};

template <named_enum T>
struct kind<T> {
  static constexpr slot_kind value{
    .expected = one_of<T>::text.data(),
    .text = [](void* x, decode_context&, std::string_view y) {
      auto found = from_string<T>(y);
      return found ? (as<T>(x) = *found, true) : false;
    }};
};

template <>
struct kind<microseconds> {
  static constexpr slot_kind value{
    .expected = "microseconds",
    .integer = [](void* x, decode_context&, int64_t y) {
      return as<microseconds>(x) = microseconds{y}, true;
    }};
};

template <>
struct kind<byte_count> {
  static constexpr slot_kind value{
    .expected = "a count of bytes",
    .integer = [](void* x, decode_context&, int64_t y) {
      return y >= 0
             && (as<byte_count>(x).value = static_cast<uint64_t>(y), true);
    }};
};

template <>
struct kind<deadline> {
  /// A year; a longer time is as good as never and would overflow.
  static constexpr int64_t longest = 31'536'000'000'000;
  static constexpr slot_kind value{
    .expected = "microseconds left, at most a year",
    .nil = [](void* x) { return as<deadline>(x).at = far_future, true; },
    .integer =
      [](void* x, decode_context& ctx, int64_t y) {
        if (y > longest)
          return false;
        as<deadline>(x).at = ctx.now + microseconds{std::max(y, int64_t{-1})};
        return true;
      }};
};

template <class T>
struct kind<std::vector<T>> {
  static constexpr slot_kind value{
    .expected = "an array",
    .array =
      [](void* x, decode_context& ctx, uint32_t n) {
        auto& xs = as<std::vector<T>>(x);
        xs.clear();
        if (!spend(ctx, n, sizeof(T)))
          return false;
        xs.reserve(n); // growing would need up to three times the memory
        return true;
      },
    .element = [](void* x) -> slot {
      return {&as<std::vector<T>>(x).emplace_back(), &kind_of<T>()};
    }};
};

template <class T>
struct kind<std::map<std::string, T>> {
  static constexpr slot_kind value{
    .expected = "a map",
    .map = [](void*, decode_context& ctx,
              uint32_t n) { return spend(ctx, n, sizeof(T) + 96); },
    .key = [](void* x, decode_context&, std::string_view y) -> slot {
      auto& xs = as<std::map<std::string, T>>(x);
      return {&xs[std::string{y}], &kind_of<T>()};
    }};
};

template <class T>
struct kind<std::optional<T>> {
  static T& fresh(void* target) {
    return as<std::optional<T>>(target).emplace();
  }
  static constexpr const slot_kind& inner = kind<T>::value;
  static_assert(inner.array == nullptr, "optional lists are empty lists");
  static constexpr slot_kind value{
    .expected = inner.expected,
    .nil = [](void* x) { return as<std::optional<T>>(x).reset(), true; },
    .boolean = inner.boolean == nullptr
                 ? nullptr
                 : +[](void* x, bool y) { return inner.boolean(&fresh(x), y); },
    .integer = inner.integer == nullptr
                 ? nullptr
                 : +[](void* x, decode_context& ctx,
                       int64_t y) { return inner.integer(&fresh(x), ctx, y); },
    .real = inner.real == nullptr
              ? nullptr
              : +[](void* x, double y) { return inner.real(&fresh(x), y); },
    .text =
      inner.text == nullptr
        ? nullptr
        : +[](void* x, decode_context& ctx,
              std::string_view y) { return inner.text(&fresh(x), ctx, y); },
    .map = inner.map == nullptr
             ? nullptr
             : +[](void* x, decode_context& ctx,
                   uint32_t n) { return inner.map(&fresh(x), ctx, n); },
    .key =
      inner.key == nullptr
        ? nullptr
        : +[](void* x, decode_context& ctx,
              std::string_view
                y) { return inner.key(&*as<std::optional<T>>(x), ctx, y); }};
};

template <declared T>
struct kind<T> {
  static slot find(void* target, decode_context&, std::string_view key) {
    slot out;
    int i = -1;
    auto is_it = [&](auto field) {
      ++i;
      if (field.name != key)
        return false;
      auto& member = as<T>(target).*field.member;
      out = {&member, &kind_of<std::remove_reference_t<decltype(member)>>(), i};
      return true;
    };
    T::with_fields(
      [&](auto... fields) { static_cast<void>((is_it(fields) || ...)); });
    return out;
  }
  static constexpr slot_kind value{
    .expected = "a map",
    .map = [](void*, decode_context&, uint32_t) { return true; },
    // Not `find` itself: GCC's UBSan cannot test its address against null in a
    // constant expression.
    .key = [](void* x, decode_context& ctx,
              std::string_view key) { return find(x, ctx, key); }};
};

template <>
struct kind<shape> {
  static const slot_kind value;
};

template <>
struct kind<tensor> {
  static const slot_kind value;
};

template <>
struct kind<named_tensor> {
  static const slot_kind value;
};

template <>
struct kind<shared_bytes> {
  static constexpr slot_kind value{
    .expected = "bytes or the number of a frame",
    .integer =
      [](void* x, decode_context& ctx, int64_t y) {
        if (y < 0 || static_cast<uint64_t>(y) >= ctx.attachments.size())
          return false;
        as<shared_bytes>(x) = ctx.attachments[static_cast<size_t>(y)];
        return true;
      },
    .raw =
      [](void* x, decode_context& ctx, const_bytes y) {
        if (!spend(ctx, y.size(), 1))
          return false;
        as<shared_bytes>(x) = shared_bytes::copy_of(y);
        return true;
      }};
};

template <class Handle>
bool take_handle(void* target, decode_context& ctx, std::string_view text) {
  if (ctx.book == nullptr)
    return false;
  as<Handle>(target) = caf::actor_cast<Handle>(ctx.book->resolve(text));
  return true;
}

template <>
struct kind<caf::strong_actor_ptr> {
  static constexpr slot_kind value{.expected = "an actor's address",
                                   .nil = [](void*) { return true; },
                                   .text = take_handle<caf::strong_actor_ptr>};
};

template <class... Sigs>
struct kind<caf::typed_actor<Sigs...>> {
  static constexpr slot_kind value{.expected = "an actor's address",
                                   .nil = [](void*) { return true; },
                                   .text =
                                     take_handle<caf::typed_actor<Sigs...>>};
};

} // namespace millrace::detail

namespace millrace {

template <class T>
const slot_kind& kind_of() {
  return detail::kind<T>::value;
}

} // namespace millrace
