// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <torch/script.h>

#include "models/backend/abi.h"

/// \file
/// Code common to all calls of the plugin: conversion of tensors and
/// exceptions to the types of abi.h.
namespace millrace {

/// In the order of millrace::dtype.
constexpr at::ScalarType scalar_types[] = {
  at::kBool, at::kByte, at::kChar,     at::kShort, at::kInt,
  at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};

inline int dtype_of(at::ScalarType type) {
  for (int i = 0; i < 10; ++i)
    if (scalar_types[i] == type)
      return i;
  throw std::runtime_error(std::string{"dtype "} + at::toString(type)
                           + " is not supported");
}

inline at::IntArrayRef extents_of(const millrace_tensor& described) {
  return {described.extents, static_cast<size_t>(described.rank)};
}

/// Types and extents of inputs, concatenated.
using tensor_shapes = std::vector<int64_t>;

inline tensor_shapes shapes_of(const millrace_tensor* inputs, uint32_t count) {
  tensor_shapes out;
  for (auto* x = inputs; x != inputs + count; ++x) {
    out.push_back(x->dtype);
    out.push_back(x->rank);
    out.insert(out.end(), x->extents, x->extents + x->rank);
  }
  return out;
}

/// Fills in all fields but the data pointer.
inline void describe_type(const at::Tensor& value, millrace_tensor& out) {
  if (value.dim() > MILLRACE_MAX_RANK)
    throw std::runtime_error("a tensor of more than 8 dimensions");
  out.dtype = dtype_of(value.scalar_type());
  out.rank = static_cast<int32_t>(value.dim());
  std::copy(value.sizes().begin(), value.sizes().end(), out.extents);
  out.bytes = value.nbytes();
  out.owner = nullptr;
  out.release = nullptr;
}

/// The reason in an error's text, as one line: the text behind the code of a
/// TorchScript traceback, else the first line.
inline std::string cause(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.pop_back();
  if (text.find("Traceback of TorchScript") != std::string::npos) {
    constexpr std::string_view mark = "<--- HERE\n";
    auto code = text.rfind(mark);
    auto out = code == std::string::npos ? text.substr(text.rfind('\n') + 1)
                                         : text.substr(code + mark.size());
    std::replace(out.begin(), out.end(), '\n', ' ');
    return out;
  }
  auto first = text.find_first_not_of(" \n");
  if (first == std::string::npos)
    return "an error without a text";
  return text.substr(first, text.find('\n', first) - first);
}

/// Calls f and turns exceptions into errors; `kind_of` classifies an exception.
template <class F>
int guarded(millrace_error* failed, F f,
            int (*kind_of)(const std::exception&) = nullptr) {
  auto fail = [&](int kind, const std::string& text) {
    failed->kind = kind;
    std::snprintf(failed->text, sizeof failed->text, "%s", text.c_str());
    return 1;
  };
  auto kind = [&](const std::exception& e) {
    return kind_of != nullptr ? kind_of(e) : static_cast<int>(millrace_failed);
  };
  try {
    f();
    return 0;
  } catch (const c10::Error& e) {
    return fail(kind(e), cause(e.what_without_backtrace()));
  } catch (const std::exception& e) {
    return fail(kind(e), cause(e.what()));
  } catch (...) {
    return fail(millrace_failed, "an exception of unknown type");
  }
}

inline void describe(const at::Tensor& value, millrace_tensor& out) {
  millrace::describe_type(value, out);
  out.data = value.data_ptr();
}

/// Calls f(name, tensor slot) for every parameter and buffer.
template <class F>
void for_each_parameter(torch::jit::Module& m, F f) {
  for (const auto& x : m.named_parameters())
    f(x.name, x.value);
  for (const auto& x : m.named_buffers())
    f(x.name, x.value);
}

} // namespace millrace
