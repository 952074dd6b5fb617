// SPDX-License-Identifier: Apache-2.0
#include "models/npy.hpp"

#include <cstring>
#include <vector>

#include "runtime/sizes.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr std::string_view magic = "\x93NUMPY";

/// NumPy's descriptor of each dtype, in the order of dtype; BF16 has none.
constexpr std::array<std::string_view, 10> descriptors{
  "|b1", "|u1", "|i1", "<i2", "<i4", "<i8", "<f2", "", "<f4", "<f8"};

error refused(std::string why) {
  return {ec::bad_request, "npy: " + std::move(why), {}};
}

/// The text after "'key':" up to the end of the header.
std::string_view after_key(std::string_view header, std::string_view key) {
  auto at = header.find("'" + std::string{key} + "':");
  if (at == std::string_view::npos)
    return {};
  auto rest = header.substr(at + key.size() + 3);
  while (!rest.empty() && rest.front() == ' ')
    rest.remove_prefix(1);
  return rest;
}

result<dtype> read_type(std::string_view header) {
  auto rest = after_key(header, "descr");
  if (rest.empty() || rest.front() != '\'')
    return refused("no plain dtype in the header");
  auto name = rest.substr(1, rest.find('\'', 1) - 1);
  for (size_t i = 0; i < descriptors.size(); ++i)
    if (name == descriptors[i] && !name.empty())
      return static_cast<dtype>(i);
  return refused("dtype " + shown(name) + " is not supported");
}

result<shape> read_shape(std::string_view header) {
  auto rest = after_key(header, "shape");
  auto close = rest.find(')');
  if (rest.empty() || rest.front() != '(' || close == std::string_view::npos)
    return refused("no shape in the header");
  std::vector<int64_t> extents;
  for (auto part : split(rest.substr(1, close - 1), ',')) {
    while (!part.empty() && part.front() == ' ')
      part.remove_prefix(1);
    if (part.empty())
      continue; // after the comma of a tuple of one
    auto n = number_in<int64_t>(part);
    if (!n || *n < 0)
      return refused("extent " + shown(part) + " is no size");
    extents.push_back(*n);
  }
  return shape::of(extents);
}

} // namespace

result<tensor> read_npy(const shared_bytes& file) {
  auto text = file.text();
  if (text.size() < 12 || text.substr(0, 6) != magic)
    return refused("does not begin with NumPy's mark");
  auto major = static_cast<unsigned char>(text[6]);
  size_t size = 0;
  size_t at = major == 1 ? 10 : 12;
  if (major < 1 || major > 3)
    return refused("has format version " + std::to_string(major));
  std::memcpy(&size, text.data() + 8, at - 8);
  if (size > text.size() - at)
    return refused("is cut off in its header");
  auto header = text.substr(at, size);
  auto type = read_type(header);
  if (!type)
    return type.failure();
  if (!after_key(header, "fortran_order").starts_with("False"))
    return refused("is in Fortran order; save it with order='C'");
  auto extents = read_shape(header);
  if (!extents)
    return extents.failure();
  at += size;
  auto made = tensor::make(*type, *extents, file.slice(at, text.size() - at));
  if (!made)
    return refused(made.failure().text);
  return made;
}

result<std::string> write_npy(const tensor& values) {
  auto descriptor = descriptors[static_cast<size_t>(values.type)];
  if (descriptor.empty())
    return refused("NumPy has no dtype for "
                   + std::string{to_string(values.type)});
  auto header =
    "{'descr': '" + std::string{descriptor}
    + "', 'fortran_order': False, 'shape': ("
    + joined(values.extents, ", ", [](int64_t n) { return std::to_string(n); })
    + (values.extents.rank() == 1 ? ",), }" : "), }");
  header.resize(rounded_up(header.size() + 11, 64) - 11, ' ');
  header += '\n';
  std::string out{magic};
  out += '\x01';
  out += '\0';
  auto size = static_cast<uint16_t>(header.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out += header;
  out += values.data.text();
  return out;
}

} // namespace millrace
