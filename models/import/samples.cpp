// SPDX-License-Identifier: Apache-2.0
#include "models/import/samples.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "models/npz.hpp"
#include "models/tensor_values.hpp"
#include "runtime/bytes.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

template <class T, class F>
void fill(byte_buffer& out, F draw) {
  for (size_t i = 0; i < out.size() / sizeof(T); ++i)
    reinterpret_cast<T*>(out.data())[i] = static_cast<T>(draw());
}

/// A reproducible tensor for a trial run: small numbers, and integers that are
/// valid as indices.
tensor sample(const tensor_spec& spec, const shape& extents,
              random_stream& random, const sample_range& range) {
  byte_buffer out{*dense_bytes(spec.type, extents)};
  auto real = [&] {
    return range.low + random.uniform() * (range.high - range.low);
  };
  auto whole = [&] {
    return range.least + random.below(range.most - range.least + 1);
  };
  auto bit = [&] { return random.below(2); };
  // The bits of 1, 0.5, -1 and 2.
  constexpr uint16_t half[] = {0x3c00, 0x3800, 0xbc00, 0x4000};
  constexpr uint16_t brain_half[] = {0x3f80, 0x3f00, 0xbf80, 0x4000};
  switch (spec.type) {
  case dtype::f32:
    fill<float>(out, real);
    break;
  case dtype::f64:
    fill<double>(out, real);
    break;
  case dtype::i32:
    fill<int32_t>(out, whole);
    break;
  case dtype::i64:
    fill<int64_t>(out, whole);
    break;
  case dtype::boolean:
    fill<uint8_t>(out, bit);
    break;
  case dtype::u8:
  case dtype::i8:
    fill<uint8_t>(out, [&] { return whole() % 128; });
    break;
  case dtype::i16:
    fill<int16_t>(out, whole);
    break;
  case dtype::f16:
    fill<uint16_t>(out, [&] { return half[random.below(4)]; });
    break;
  case dtype::bf16:
    fill<uint16_t>(out, [&] { return brain_half[random.below(4)]; });
    break;
  }
  return {spec.type, extents, std::move(out).freeze()};
}

/// Whether all numbers are equal up to rounding, which may differ with the
/// number of rows.
template <class T, class Read>
bool close_numbers(const tensor& a, const tensor& b, double tolerance,
                   Read read) {
  auto* x = reinterpret_cast<const T*>(a.data.data());
  auto* y = reinterpret_cast<const T*>(b.data.data());
  for (size_t i = 0; i < a.data.size() / sizeof *x; ++i) {
    double u = read(x[i]), v = read(y[i]);
    auto same = u == v || (std::isnan(u) && std::isnan(v));
    if (!same && !(std::abs(u - v) <= tolerance * (0.1 + std::abs(v))))
      return false;
  }
  return true;
}

/// Adds tensors under their names with a prefix: "input/x".
void add_named(std::vector<named_tensor>& out, const std::string& prefix,
               const std::vector<tensor_spec>& specs, const tensor_list& xs) {
  for (size_t i = 0; i < xs.size(); ++i)
    out.push_back({prefix + specs[i].name, xs[i]});
}

/// The tensors with that prefix, in the order of the specs; fewer if one is
/// missing.
tensor_list find_named(const std::vector<named_tensor>& all,
                       const std::string& prefix,
                       const std::vector<tensor_spec>& specs) {
  tensor_list out;
  for (auto& spec : specs)
    for (auto& x : all)
      if (x.name == prefix + spec.name)
        out.push_back(x.value);
  return out;
}

} // namespace

result<std::string> write_samples(const signature& s,
                                  const sample_run& samples) {
  std::vector<named_tensor> out;
  add_named(out, "input/", s.inputs, samples.inputs);
  add_named(out, "output/", s.outputs, samples.outputs);
  return write_safetensors(out);
}

result<std::optional<sample_run>> read_samples(const bundle& opened) {
  if (!opened.info.samples)
    return std::optional<sample_run>{};
  auto all = open_samples(opened);
  if (!all)
    return all.failure();
  auto& s = opened.info.signature;
  sample_run out{find_named(*all, "input/", s.inputs),
                 find_named(*all, "output/", s.outputs)};
  if (out.inputs.size() != s.inputs.size()
      || out.outputs.size() != s.outputs.size())
    return error{ec::bad_config,
                 opened.directory + "/" + opened.info.samples->file
                   + ": has not each input and output of the signature"};
  return std::optional{std::move(out)};
}

result<sample_run> read_expected(const std::string& path, const signature& s) {
  constexpr size_t most = size_t{1} << 30;
  auto text = read_file(path, most);
  if (!text)
    return text.failure();
  auto all = read_safetensors(shared_bytes::copy_of(*text));
  if (!all)
    return std::move(all.failure()).within(path);
  auto outputs = s.outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i].name = std::to_string(i);
  sample_run out{find_named(*all, "input/", s.inputs),
                 find_named(*all, "output/", outputs)};
  if (out.inputs.size() != s.inputs.size()
      || out.outputs.size() != outputs.size()
      || all->size() != s.inputs.size() + outputs.size())
    return error{ec::bad_request,
                 path + ": expected input/NAME for each of "
                   + std::to_string(s.inputs.size())
                   + " inputs and output/0 to "
                   + std::to_string(outputs.size() - 1),
                 {}};
  return out;
}

bool are_close(const tensor& a, const tensor& b) {
  if (a.type != b.type || !(a.extents == b.extents))
    return false;
  auto same = [](auto x) { return static_cast<double>(x); };
  switch (a.type) {
  case dtype::f64:
    return close_numbers<double>(a, b, 1e-9, same);
  case dtype::f32:
    return close_numbers<float>(a, b, 1e-3, same);
  case dtype::f16:
    return close_numbers<uint16_t>(a, b, 1e-2, from_half);
  case dtype::bf16:
    return close_numbers<uint16_t>(a, b, 5e-2, from_brain_half);
  default:
    return a.data == b.data;
  }
}

bool are_close(const tensor_list& a, const tensor_list& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](auto& x, auto& y) { return are_close(x, y); });
}

result<tensor_list> sample_source::inputs(const signature& s,
                                          random_stream& random,
                                          int64_t n) const {
  if (!rows.empty() && s.batch_axis < 0)
    return rows.front();
  if (!rows.empty()) {
    std::vector<tensor_list> some;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i)
      some.push_back(rows[i % rows.size()]);
    return gather(some, s.batch_axis);
  }
  tensor_list out;
  for (auto& spec : s.inputs) {
    auto extents = with_rows(s, spec, n);
    auto bytes = dense_bytes(spec.type, extents);
    if (!bytes || *bytes > max_sample_bytes)
      return error{ec::too_large, "input " + to_string(spec) + ": "
                                    + std::to_string(n) + " rows are more than "
                                    + format_bytes(max_sample_bytes)};
    out.push_back(sample(spec, extents, random, range));
  }
  return out;
}

result<sample_source> rows_of(tensor_list inputs, const signature& s) {
  if (s.batch_axis < 0)
    return sample_source{{std::move(inputs)}, {}};
  auto n = inputs.at(0).extents[static_cast<size_t>(s.batch_axis)];
  auto rows = scatter(inputs, std::vector<size_t>(static_cast<size_t>(n), 1),
                      s.batch_axis);
  if (!rows)
    return rows.failure();
  return sample_source{std::move(*rows), {}};
}

result<sample_source> read_sample(const std::string& path, signature& s) {
  auto all = read_npz(path);
  if (!all)
    return all.failure();
  auto refused = [&](const tensor_spec& spec, const std::string& found) {
    return error{ec::bad_request,
                 path + ": input " + to_string(spec) + ": found " + found,
                 {}};
  };
  tensor_list inputs;
  for (auto& spec : s.inputs) {
    auto x = std::find_if(all->begin(), all->end(),
                          [&](auto& y) { return y.name == spec.name; });
    if (x == all->end())
      return refused(spec, joined(*all, ", ", [](auto& y) {
                             return shown(y.name);
                           }) + " (expected an array of that name)");
    auto& value = x->value;
    auto fits =
      value.type == spec.type && value.extents.rank() == spec.extents.size();
    for (size_t i = 0; fits && i < spec.extents.size(); ++i)
      fits = spec.extents[i] < 0 || spec.extents[i] == value.extents[i];
    if (!fits)
      return refused(spec, to_string(tensor_spec{
                             spec.name,
                             value.type,
                             {value.extents.begin(), value.extents.end()}}));
    for (size_t i = 0; i < spec.extents.size(); ++i)
      if (spec.extents[i] < 0 && static_cast<int>(i) != s.batch_axis)
        s.usual_extent = value.extents[i];
    inputs.push_back(value);
  }
  if (s.batch_axis >= 0) {
    auto axis = static_cast<size_t>(s.batch_axis);
    auto n = inputs[0].extents[axis];
    for (size_t i = 0; i < inputs.size(); ++i)
      if (n < 1 || inputs[i].extents[axis] != n)
        return refused(
          s.inputs[i],
          std::to_string(inputs[i].extents[axis])
            + " rows (expected as many in each input, at least 1)");
  }
  return rows_of(std::move(inputs), s);
}

} // namespace millrace
