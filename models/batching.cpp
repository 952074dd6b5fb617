// SPDX-License-Identifier: Apache-2.0
#include "models/batching.hpp"

#include "runtime/copies.hpp"

namespace millrace {

namespace {

/// A tensor seen as `outer` runs; along the batch axis each run holds the
/// rows of a request one after the other, `row` bytes each.
struct layout {
  size_t outer = 1;
  size_t row = 1;
};

layout layout_of(const tensor& x, size_t axis) {
  layout out;
  for (size_t i = 0; i < axis; ++i)
    out.outer *= static_cast<size_t>(x.extents[i]);
  out.row = size_of(x.type);
  for (size_t i = axis + 1; i < x.extents.rank(); ++i)
    out.row *= static_cast<size_t>(x.extents[i]);
  return out;
}

bool agree(const tensor& a, const tensor& b, size_t axis) {
  if (a.type != b.type || a.extents.rank() != b.extents.rank())
    return false;
  for (size_t i = 0; i < a.extents.rank(); ++i)
    if (i != axis && a.extents[i] != b.extents[i])
      return false;
  return axis < a.extents.rank();
}

result<tensor> gather_one(std::span<const tensor_list> requests, size_t which,
                          size_t axis) {
  auto& first = requests.front()[which];
  auto extents = first.extents;
  extents[axis] = 0;
  for (auto& x : requests) {
    if (!agree(first, x[which], axis))
      return error{ec::bad_request, "requests of " + to_string(first) + " and "
                                      + to_string(x[which])
                                      + " cannot share a batch"};
    extents[axis] += x[which].extents[axis];
  }
  auto n = dense_bytes(first.type, extents);
  if (!n)
    return n.failure();
  if (*n == 0) // `outer` has no limit for tensors without bytes
    return tensor{first.type, extents, {}};
  byte_buffer out{*n};
  auto* to = out.data();
  auto how = layout_of(first, axis);
  for (size_t run = 0; run < how.outer; ++run) {
    for (auto& x : requests) {
      auto part = how.row * static_cast<size_t>(x[which].extents[axis]);
      std::memcpy(to, x[which].data.data() + run * part, part);
      to += part;
    }
  }
  count_copied(*n);
  return tensor{first.type, extents, std::move(out).freeze()};
}

/// Rows [at, at + n) of a batch.
tensor cut(const tensor& x, size_t axis, size_t at, size_t n) {
  auto extents = x.extents;
  auto total = static_cast<size_t>(extents[axis]);
  extents[axis] = static_cast<int64_t>(n);
  if (x.data.empty())
    return {x.type, extents, {}};
  auto how = layout_of(x, axis);
  if (how.outer == 1)
    return {x.type, extents, x.data.slice(at * how.row, n * how.row)};
  byte_buffer out{how.outer * n * how.row};
  for (size_t run = 0; run < how.outer; ++run)
    std::memcpy(out.data() + run * n * how.row,
                x.data.data() + (run * total + at) * how.row, n * how.row);
  count_copied(out.size());
  return {x.type, extents, std::move(out).freeze()};
}

} // namespace

size_t bytes_of(const tensor_list& xs) {
  size_t n = 0;
  for (auto& x : xs)
    n += x.data.size();
  return n;
}

result<tensor_list> gather(std::span<const tensor_list> requests,
                           int batch_axis) {
  MILLRACE_ASSERT(!requests.empty());
  if (requests.size() == 1)
    return requests.front();
  MILLRACE_ASSERT(batch_axis >= 0);
  for (auto& x : requests)
    if (x.size() != requests.front().size() || x.empty())
      return error{ec::bad_request, "requests of " + std::to_string(x.size())
                                      + " inputs cannot share a batch"};
  tensor_list out;
  for (size_t i = 0; i < requests.front().size(); ++i) {
    auto x = gather_one(requests, i, static_cast<size_t>(batch_axis));
    if (!x)
      return x.failure();
    out.push_back(std::move(*x));
  }
  return out;
}

result<std::vector<tensor_list>> scatter(const tensor_list& outputs,
                                         std::span<const size_t> rows,
                                         int batch_axis) {
  if (rows.size() == 1)
    return std::vector<tensor_list>{outputs};
  auto axis = static_cast<size_t>(batch_axis);
  size_t total = 0;
  for (auto n : rows)
    if (__builtin_add_overflow(total, n, &total))
      return error{ec::bad_request, "a batch of more rows than there can be"};
  for (auto& x : outputs)
    if (axis >= x.extents.rank()
        || static_cast<size_t>(x.extents[axis]) != total)
      return error{ec::internal, "the model gave " + to_string(x)
                                   + " for a batch of " + std::to_string(total)
                                   + " rows"};
  std::vector<tensor_list> out(rows.size());
  size_t at = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (auto& x : outputs)
      out[i].push_back(cut(x, axis, at, rows[i]));
    at += rows[i];
  }
  return out;
}

bool mergeable(const tensor_list& a, const tensor_list& b, int batch_axis) {
  if (batch_axis < 0 || a.size() != b.size())
    return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!agree(a[i], b[i], static_cast<size_t>(batch_axis)))
      return false;
  return true;
}

} // namespace millrace
