// SPDX-License-Identifier: Apache-2.0
#include "millrace/array_files.hpp"

#include <algorithm>

#include "models/npy.hpp"

namespace millrace {

result<std::vector<named_tensor>>
read_arrays(const std::vector<std::string>& said) {
  std::vector<named_tensor> out;
  for (auto& text : said) {
    auto equals = text.find('=');
    auto name = equals == std::string::npos ? "" : text.substr(0, equals);
    auto path = equals == std::string::npos ? text : text.substr(equals + 1);
    auto file = map_file(path);
    if (!file)
      return file.failure();
    auto array = read_npy(file->content);
    if (!array)
      return std::move(array.failure()).within(path);
    out.push_back({name, std::move(*array)});
  }
  return out;
}

result<tensor> choose_rows(const tensor& values, size_t first, size_t rows) {
  if (values.extents.rank() == 0)
    return values;
  auto there = static_cast<size_t>(values.extents[0]);
  if (rows == 0)
    rows = there - std::min(first, there);
  if (rows == 0 || first > there || rows > there - first)
    return error{ec::bad_request,
                 std::to_string(rows) + " rows from row "
                   + std::to_string(first) + " on, of an input that has "
                   + std::to_string(there),
                 {}};
  auto size = values.data.size() / there;
  auto extents = values.extents;
  extents[0] = static_cast<int64_t>(rows);
  return tensor{values.type, extents,
                values.data.slice(first * size, rows * size)};
}

} // namespace millrace
