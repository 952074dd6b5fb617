// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/assert.hpp"
#include "runtime/names.hpp"

namespace millrace {

/// What went wrong, as far as some caller reacts to it differently. The first
/// eleven are also the statuses a client gets.
enum class ec : uint8_t {
  ok,                ///< the answer is the result
  bad_request,       ///< the request itself is wrong; sending it again is too
  unknown_model,     ///< no model of that name for this tenant
  forbidden,         ///< the role may not say this
  too_large,         ///< over a limit; the text names it
  overloaded,        ///< refused to keep queues bounded; see retry_after
  deadline_exceeded, ///< the time allowed has passed
  cancelled,         ///< the client asked to stop
  unavailable,       ///< nobody can answer now; sending it again may help
  poison,            ///< this input kills its executor
  internal,          ///< our fault
  bad_config,        ///< a configuration is refused (exit status 78)
  conflict,          ///< somebody else changed it first (compare-and-set)
};

constexpr auto names_of(ec) {
  return name_table{
    "ok",          "bad_request", "unknown_model",     "forbidden",
    "too_large",   "overloaded",  "deadline_exceeded", "cancelled",
    "unavailable", "poison",      "internal",          "bad_config",
    "conflict"};
}

/// An error of the world: a code to react to and a sentence that says which
/// thing, what was found and what was expected.
struct error {
  ec code = ec::internal;
  std::string text;
  /// With overloaded: when another attempt makes sense; else zero.
  std::chrono::microseconds retry_after{0};

  /// Prepends where it happened: "FILE: TEXT".
  error within(std::string_view where) &&;
};

std::string to_string(const error& x);

/// A value or the error that stands in its place.
template <class T>
class [[nodiscard]] result {
public:
  result(T x) : content_(std::move(x)) {}
  result(error x) : content_(std::move(x)) {}

  explicit operator bool() const { return content_.index() == 0; }

  T& operator*() {
    MILLRACE_ASSERT(content_.index() == 0);
    return *std::get_if<0>(&content_);
  }
  const T& operator*() const {
    MILLRACE_ASSERT(content_.index() == 0);
    return *std::get_if<0>(&content_);
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  /// The error. Only where there is no value.
  error& failure() {
    MILLRACE_ASSERT(content_.index() == 1);
    return *std::get_if<1>(&content_);
  }
  const error& failure() const {
    MILLRACE_ASSERT(content_.index() == 1);
    return *std::get_if<1>(&content_);
  }

private:
  std::variant<T, error> content_;
};

/// Success without a value, or an error.
template <>
class [[nodiscard]] result<void> {
public:
  result() = default;
  result(error x) : error_(std::move(x)), failed_(true) {}

  explicit operator bool() const { return !failed_; }
  const error& failure() const {
    MILLRACE_ASSERT(failed_);
    return error_;
  }
  error& failure() {
    MILLRACE_ASSERT(failed_);
    return error_;
  }

private:
  error error_;
  bool failed_ = false;
};

} // namespace millrace
