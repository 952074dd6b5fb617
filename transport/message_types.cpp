// SPDX-License-Identifier: Apache-2.0
#include "transport/message_types.hpp"

#include <typeindex>
#include <unordered_map>

#include "transport/messages/all.hpp"

namespace millrace {

namespace {

template <class T>
constexpr message_type entry{
  T::record_name(),
  [](encoder& out, const void* x) { out.put(*static_cast<const T*>(x)); },
  [](const_bytes body, decode_context& ctx) -> result<caf::message> {
    auto x = decode<T>(body, ctx);
    if (!x)
      return x.failure();
    return caf::make_message(std::move(*x));
  }};

struct tables {
  std::unordered_map<std::string_view, const message_type*> by_name;
  std::unordered_map<std::type_index, const message_type*> by_type;
  std::vector<std::string_view> names;

  template <class... Ts>
  explicit tables(std::tuple<Ts...>*) {
    (add<Ts>(), ...);
  }

  template <class T>
  void add() {
    by_name.emplace(T::record_name(), &entry<T>);
    by_type.emplace(typeid(T), &entry<T>);
    names.push_back(T::record_name());
  }
};

const tables& all() {
  static const tables out{static_cast<all_messages*>(nullptr)};
  return out;
}

} // namespace

const message_type* find_message_type(std::string_view name) {
  auto i = all().by_name.find(name);
  return i == all().by_name.end() ? nullptr : i->second;
}

const message_type* find_message_type(const std::type_info& type) {
  auto i = all().by_type.find(type);
  return i == all().by_type.end() ? nullptr : i->second;
}

std::vector<std::string_view> message_names() {
  return all().names;
}

} // namespace millrace
