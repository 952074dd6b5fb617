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

/// Error codes. A separate code exists only if some caller reacts to it
/// differently. The first eleven are also the statuses of answers to clients.
enum class ec : uint8_t {
  ok,                ///< success: the answer holds the result
  bad_request,       ///< the request is invalid; a retry fails as well
  unknown_model,     ///< the tenant has no model with this name
  forbidden,         ///< the sender's role does not permit the message
  too_large,         ///< over a limit, which the text names
  overloaded,        ///< refused to keep queues bounded; see retry_after
  deadline_exceeded, ///< the deadline has passed
  cancelled,         ///< the client cancelled the request
  unavailable,       ///< no replica or node can answer now; a retry may succeed
  poison,            ///< the input crashes its executor
  internal,          ///< a bug in Millrace
  bad_config,        ///< an invalid configuration (exit status 78)
  conflict,          ///< another writer changed the row first (compare-and-set)
};

constexpr auto names_of(ec) {
  return name_table{
    "ok",          "bad_request", "unknown_model",     "forbidden",
    "too_large",   "overloaded",  "deadline_exceeded", "cancelled",
    "unavailable", "poison",      "internal",          "bad_config",
    "conflict"};
}

/// An error caused by the environment or by input: a code to react to, and a
/// sentence that names the object, the value found and the value expected.
struct error {
  ec code = ec::internal;
  std::string text;
  /// For overloaded: the time after which to retry; otherwise zero.
  std::chrono::microseconds retry_after{0};

  /// Prepends a location: "FILE: TEXT".
  error within(std::string_view where) &&;
};

std::string to_string(const error& failure);

/// A value or an error.
template <class T>
class [[nodiscard]] result {
public:
  result(T value) : content_(std::move(value)) {}
  result(error why) : content_(std::move(why)) {}

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

  /// The error; must not be called when there is a value.
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
  result(error why) : error_(std::move(why)), failed_(true) {}

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
