// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Fills each field of any declared record.

#include "models/tensor.hpp"
#include "transport/codec.hpp"

namespace millrace::test {

/// Sets each field to a value that is not its default; lists and maps get one
/// element, handles stay empty.
struct filler {
  void fill(bool& x) { x = true; }
  template <std::integral T>
  void fill(T& x) {
    x = static_cast<T>(++count % 100);
  }
  void fill(double& x) { x = 0.25 + ++count; }
  void fill(std::string& x) { x = "text-" + std::to_string(++count); }
  template <named_enum T>
  void fill(T& x) {
    x = static_cast<T>(1);
  }
  void fill(microseconds& x) { x = microseconds{1000 + ++count}; }
  void fill(byte_count& x) { x.value = 4096; }
  void fill(deadline& x) { x.at = now + microseconds{1000 + ++count}; }
  void fill(shape& x) { x = {2, 3}; }
  void fill(shared_bytes& x) { x = shared_bytes::copy_of("bytes"); }
  void fill(tensor& x) { x = *tensor::zeros(dtype::i32, {2, 3}); }
  void fill(named_tensor& x) {
    fill(x.name);
    fill(x.value);
  }
  void fill(caf::strong_actor_ptr&) {}
  template <class... Sigs>
  void fill(caf::typed_actor<Sigs...>&) {}
  template <class T>
  void fill(std::optional<T>& x) {
    fill(x.emplace());
  }
  template <class T>
  void fill(std::vector<T>& x) {
    fill(x.emplace_back());
  }
  template <class T>
  void fill(std::map<std::string, T>& x) {
    fill(x["key-" + std::to_string(++count)]);
  }
  template <declared T>
  void fill(T& x) {
    for_each_field(
      x, [this](std::string_view, auto& member) { this->fill(member); });
  }

  timestamp now;
  int count = 0;
};

template <class T>
T sample(timestamp now) {
  T out{};
  filler{now}.fill(out);
  return out;
}

} // namespace millrace::test
