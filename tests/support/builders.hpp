// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <numeric>
#include <vector>

#include "models/batching.hpp"
#include "models/bundle.hpp"
#include "runtime/time.hpp"

namespace millrace::test {

inline timestamp at(microseconds x) {
  return timestamp{} + std::chrono::hours{1} + x;
}

template <class T>
shared_bytes bytes_of(const std::vector<T>& xs) {
  return shared_bytes::copy_of(std::as_bytes(std::span{xs}));
}

/// A tensor of consecutive floats from `first` on.
inline tensor floats(const shape& extents, float first = 0) {
  size_t n = 1;
  for (auto x : extents)
    n *= static_cast<size_t>(x);
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), first);
  return *tensor::make(dtype::f32, extents, bytes_of(values));
}

inline std::vector<float> values_of(const tensor& x) {
  std::vector<float> out(x.data.size() / sizeof(float));
  std::memcpy(out.data(), x.data.data(), x.data.size());
  return out;
}

/// Input spec of a model with one input, rows of four floats.
inline const tensor_spec rows_of_4{"x", dtype::f32, {-1, 4}};

/// One input of rows of `width` floats, one output of two.
inline signature row_signature(int64_t width = 4) {
  signature out;
  out.inputs.push_back({"x", dtype::f32, {-1, width}});
  out.outputs.push_back({"y", dtype::f32, {-1, 2}});
  return out;
}

inline std::shared_ptr<const bundle> make_bundle(const std::string& name,
                                                 uint64_t version = 1) {
  bundle out;
  out.info.format = bundle_format;
  out.info.name = name;
  out.info.version = version;
  out.info.signature = row_signature();
  out.info.layers.push_back({"model", "model.pt", 0, "", "", 0, 0, {}, {}, {}});
  return std::make_shared<bundle>(std::move(out));
}

} // namespace millrace::test
