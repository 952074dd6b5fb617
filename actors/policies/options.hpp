// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Parses options of policies, given as text by name in configs, messages and
/// the shell, into the policy's record. Fields of an inner record are read as
/// fields of the outer record.

#include <map>
#include <set>
#include <string>

#include "runtime/limits.hpp"
#include "runtime/names.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

using option_texts = std::map<std::string, std::string>;

namespace detail {

template <class M>
result<void> read_option(const std::string& text, M& out) {
  auto expected = [&](const std::string& what) {
    return error{
      ec::bad_request, "expected " + what + ", found " + shown(text), {}};
  };
  if constexpr (std::is_same_v<M, std::string>) {
    out = text;
  } else if constexpr (std::is_same_v<M, bool>) {
    if (text != "true" && text != "false")
      return expected("true or false");
    out = text == "true";
  } else if constexpr (std::is_same_v<M, microseconds>) {
    auto x = parse_duration(text);
    if (!x)
      return x.failure();
    out = *x;
  } else if constexpr (std::is_same_v<M, bandwidth>) {
    auto x = parse_bandwidth(text);
    if (!x)
      return x.failure();
    out = *x;
  } else if constexpr (named_enum<M>) {
    auto x = from_string<M>(text);
    if (!x)
      return expected("one of " + joined(names_of(M{}), ", ", [](auto s) {
                        return std::string{s};
                      }));
    out = *x;
  } else {
    auto x = number_in<M>(text);
    if (!x)
      return expected(std::is_integral_v<M> ? "a whole number" : "a number");
    out = *x;
  }
  return {};
}

/// Calls f(name, member, note) for each option, also of inner records.
template <annotated T, class F>
void each_option(T& options, F&& f) {
  size_t i = 0;
  for_each_field(options, [&](std::string_view name, auto& member) {
    using member_type = std::remove_cvref_t<decltype(member)>;
    auto its = T::notes()[i++];
    if constexpr (annotated<member_type>)
      each_option(member, f);
    else
      f(name, member, its);
  });
}

} // namespace detail

/// Errors: bad_request with the option, the found and the expected value. For
/// an unknown option the error lists the known options.
template <annotated T>
result<T> read_options(const option_texts& texts) {
  T out;
  result<void> so_far;
  std::set<std::string> known;
  detail::each_option(
    out, [&](std::string_view name, auto& member, const note& its) {
      known.emplace(name);
      auto given = texts.find(std::string{name});
      if (!so_far || given == texts.end())
        return;
      so_far = detail::read_option(given->second, member);
      using member_type = std::remove_cvref_t<decltype(member)>;
      if constexpr (limited<member_type>)
        if (so_far && !within(member, its)) // false for NaN
          so_far = error{ec::bad_request,
                         "expected " + limits_text<member_type>(its)
                           + ", found " + shown(given->second),
                         {}};
      if (!so_far)
        so_far = std::move(so_far.failure()).within(std::string{name});
    });
  if (!so_far)
    return so_far.failure();
  for (auto& [name, text] : texts)
    if (!known.contains(name))
      return error{ec::bad_request,
                   "unknown option " + shown(name) + "; known here: "
                     + (known.empty() ? std::string{"none"}
                                      : joined(known, " ", std::identity{})),
                   {}};
  return out;
}

} // namespace millrace
