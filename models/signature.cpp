// SPDX-License-Identifier: Apache-2.0
#include "models/signature.hpp"

#include <set>

#include "runtime/name.hpp"
#include "runtime/text.hpp"

namespace millrace {

std::string to_string(const tensor_spec& spec) {
  return spec.name + ":" + std::string{to_string(spec.type)} + "["
         + joined(spec.extents, ", ",
                  [](int64_t n) { return std::to_string(n); })
         + "]";
}

result<tensor_spec> parse_tensor_spec(std::string_view text) {
  auto refuse = [&](std::string why) {
    return error{ec::bad_request, "input " + shown(text, 80) + ": "
                                    + std::move(why)
                                    + " (expected like image:F32:-1,64)"};
  };
  auto parts = split(text, ':');
  if (parts.size() != 3 || parts[0].empty())
    return refuse("is not NAME:DTYPE:EXTENTS");
  auto type = from_string<dtype>(parts[1]);
  if (!type)
    return refuse(
      "has unknown dtype " + shown(parts[1]) + "; known: "
      + joined(names_of(dtype{}), ", ", [](auto s) { return std::string{s}; }));
  tensor_spec out{std::string{parts[0]}, *type, {}};
  if (parts[2].empty())
    return out;
  for (auto part : split(parts[2], ',')) {
    auto n = part == "?" ? -1 : number_in<int64_t>(part);
    if (!n || *n < -1)
      return refuse("has extent " + shown(part) + ", which is no number");
    out.extents.push_back(*n);
  }
  if (out.extents.size() > shape::max_rank)
    return refuse("has more than " + std::to_string(shape::max_rank)
                  + " extents");
  return out;
}

namespace {

constexpr size_t most_row_bytes = 1u << 30;

/// The defect of one input or output; empty: none.
std::string objection(const signature& s, const tensor_spec& x) {
  if (x.extents.size() > shape::max_rank)
    return "has more than " + std::to_string(shape::max_rank) + " extents";
  for (auto n : x.extents)
    if (n < -1)
      return "has an extent of " + std::to_string(n);
  auto bytes = dense_bytes(x.type, with_rows(s, x, 1));
  return bytes && *bytes <= most_row_bytes ? "" : "has rows of more than 1 GiB";
}

} // namespace

result<void> check_signature(const signature& declared) {
  auto refuse = [](std::string why) {
    return error{ec::bad_config, "signature: " + std::move(why), {}};
  };
  if (declared.usual_extent < 1)
    return refuse("has a usual extent of "
                  + std::to_string(declared.usual_extent));
  for (auto* specs : {&declared.inputs, &declared.outputs}) {
    std::string kind = specs == &declared.inputs ? "input" : "output";
    if (specs->empty() || specs->size() > most_tensors)
      return refuse("has " + std::to_string(specs->size()) + " " + kind
                    + "s (expected 1 to 256)");
    std::set<std::string_view> names;
    for (auto& spec : *specs)
      if (!spec.name.empty() && !names.insert(spec.name).second)
        return refuse("has two " + kind + "s " + shown(spec.name));
    for (auto& spec : *specs)
      if (auto plain = check_plain(kind, spec.name); !plain)
        return refuse(plain.failure().text);
    for (auto& spec : *specs)
      if (auto why = objection(declared, spec); !why.empty())
        return refuse(kind + " " + shown(spec.name) + " " + why);
  }
  for (auto& spec : declared.inputs)
    if (declared.batch_axis < -1
        || declared.batch_axis >= static_cast<int>(spec.extents.size()))
      return refuse("input " + shown(spec.name) + " has no axis "
                    + std::to_string(declared.batch_axis) + " (batch_axis)");
  return {};
}

namespace {

bool fits(const tensor_spec& spec, const tensor& x) {
  if (spec.type != x.type || spec.extents.size() != x.extents.rank())
    return false;
  for (size_t i = 0; i < x.extents.rank(); ++i)
    if (spec.extents[i] >= 0 && spec.extents[i] != x.extents[i])
      return false;
  return true;
}

} // namespace

result<size_t> check_inputs(const signature& s, std::span<const tensor> xs) {
  if (xs.size() != s.inputs.size())
    return error{
      ec::bad_request,
      "expected " + std::to_string(s.inputs.size()) + " input(s) ("
        + joined(s.inputs, ", ", [](auto& x) { return to_string(x); })
        + "), got " + std::to_string(xs.size())};
  int64_t rows = 1;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!fits(s.inputs[i], xs[i]))
      return error{ec::bad_request, "expected " + to_string(s.inputs[i])
                                      + ", got " + to_string(xs[i])};
    if (s.batch_axis < 0)
      continue;
    auto axis = static_cast<size_t>(s.batch_axis);
    if (axis >= xs[i].extents.rank())
      return error{ec::bad_request,
                   "input '" + s.inputs[i].name + "' has no batch axis"};
    auto n = xs[i].extents[axis];
    if (i > 0 && n != rows)
      return error{ec::bad_request, "input '" + s.inputs[i].name + "' has "
                                      + std::to_string(n) + " rows where '"
                                      + s.inputs[0].name + "' has "
                                      + std::to_string(rows)};
    rows = n;
  }
  if (rows < 1)
    return error{ec::bad_request, "the inputs have no rows"};
  return static_cast<size_t>(rows);
}

result<void> check_outputs(const signature& s, std::span<const tensor> xs) {
  if (xs.size() != s.outputs.size())
    return error{ec::internal,
                 "the model returned " + std::to_string(xs.size())
                   + " output(s), expected " + std::to_string(s.outputs.size()),
                 {}};
  for (size_t i = 0; i < xs.size(); ++i) {
    auto& spec = s.outputs[i];
    if (xs[i].type != spec.type || xs[i].extents.rank() != spec.extents.size())
      return error{ec::internal,
                   "the model returned " + to_string(xs[i]) + " as output "
                     + to_string(spec),
                   {}};
  }
  return {};
}

shape with_rows(const signature& s, const tensor_spec& spec, int64_t rows) {
  shape out = *shape::of(spec.extents);
  for (size_t i = 0; i < out.rank(); ++i) {
    if (static_cast<int>(i) == s.batch_axis)
      out[i] = rows;
    else if (out[i] < 0)
      out[i] = s.usual_extent;
  }
  return out;
}

} // namespace millrace
