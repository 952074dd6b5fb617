// SPDX-License-Identifier: Apache-2.0
#include "models/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/text.hpp"

namespace millrace {

namespace {

using json = nlohmann::json;

constexpr size_t max_header = 16u << 20;
constexpr size_t max_tensors = 100'000;
constexpr size_t max_name = 512;
constexpr size_t alignment = 64;

error refused(std::string why) {
  return {ec::bad_request, "safetensors: " + std::move(why), {}};
}

/// Parses the header; objects in it may not name a key twice.
result<json> parse_header(std::string_view text) {
  std::vector<std::set<std::string>> seen;
  std::string twice;
  auto watch = [&](int, json::parse_event_t event, json& x) {
    if (event == json::parse_event_t::object_start)
      seen.emplace_back();
    else if (event == json::parse_event_t::object_end)
      seen.pop_back();
    else if (event == json::parse_event_t::key
             && !seen.back().insert(x.get<std::string>()).second)
      twice = x.get<std::string>();
    return true;
  };
  auto out = json::parse(text, watch, false);
  if (out.is_discarded() || !out.is_object())
    return refused("the header is not a JSON object");
  if (!twice.empty())
    return refused("the header names " + shown(twice) + " twice");
  return out;
}

struct entry {
  std::string name;
  dtype type;
  shape extents;
  size_t begin;
  size_t end;
};

result<entry> read_entry(const std::string& name, const json& x, size_t size) {
  auto refuse = [&](const char* why) {
    return refused("tensor " + shown(name) + " " + why);
  };
  if (name.size() > max_name)
    return refuse("has a name of more than 512 bytes");
  if (!x.is_object() || !x.contains("dtype") || !x.contains("shape")
      || !x.contains("data_offsets") || !x["dtype"].is_string()
      || !x["shape"].is_array() || !x["data_offsets"].is_array()
      || x["data_offsets"].size() != 2)
    return refuse("lacks dtype, shape or data_offsets");
  auto type = from_string<dtype>(x["dtype"].get<std::string>());
  if (!type)
    return refuse("has an unknown dtype");
  std::vector<int64_t> extents;
  for (auto& n : x["shape"]) {
    if (!n.is_number_unsigned() || n.get<uint64_t>() > INT64_MAX)
      return refuse("has an extent that is no size");
    extents.push_back(n.get<int64_t>());
  }
  auto dims = shape::of(extents);
  if (!dims)
    return refuse("has too many dimensions");
  auto& offsets = x["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return refuse("has offsets that are no sizes");
  entry out{name, *type, *dims, offsets[0].get<size_t>(),
            offsets[1].get<size_t>()};
  if (out.begin > out.end || out.end > size)
    return refuse("lies outside the file");
  auto n = dense_bytes(out.type, out.extents);
  if (!n || *n != out.end - out.begin)
    return refuse("has a length that is not its shape times its dtype");
  return out;
}

} // namespace

result<std::vector<named_tensor>> read_safetensors(const shared_bytes& file) {
  uint64_t header_size = 0;
  if (file.size() < sizeof header_size)
    return refused("the file is shorter than 8 bytes");
  std::memcpy(&header_size, file.data(), sizeof header_size);
  if (header_size > max_header || header_size > file.size() - 8)
    return refused("the header's length of " + std::to_string(header_size)
                   + " is over 16 MiB or over the file");
  auto header = parse_header(file.text().substr(8, header_size));
  if (!header)
    return header.failure();
  if (header->size() > max_tensors)
    return refused("more than 100000 tensors");
  auto data = file.slice(8 + header_size, file.size() - 8 - header_size);
  std::vector<entry> entries;
  for (auto& [name, x] : header->items()) {
    if (name == "__metadata__")
      continue;
    auto e = read_entry(name, x, data.size());
    if (!e)
      return e.failure();
    entries.push_back(std::move(*e));
  }
  std::stable_sort(entries.begin(), entries.end(), [](auto& x, auto& y) {
    return std::tie(x.begin, x.end) < std::tie(y.begin, y.end);
  });
  size_t at = 0;
  std::vector<named_tensor> out;
  for (auto& e : entries) {
    if (e.begin != at)
      return refused("tensor " + shown(e.name)
                     + " leaves a hole or overlaps another");
    at = e.end;
    out.push_back(
      {std::move(e.name),
       tensor{e.type, e.extents, data.slice(e.begin, e.end - e.begin)}});
  }
  if (at != data.size())
    return refused("bytes follow the last tensor");
  return out;
}

result<std::string> write_safetensors(const std::vector<named_tensor>& xs) {
  auto header = nlohmann::ordered_json::object();
  size_t at = 0;
  for (auto& x : xs) {
    if (header.contains(x.name))
      return refused("two tensors are named " + shown(x.name));
    auto n = x.value.data.size();
    header[x.name] = {{"dtype", std::string{to_string(x.value.type)}},
                      {"shape", std::vector<int64_t>(x.value.extents.begin(),
                                                     x.value.extents.end())},
                      {"data_offsets", {at, at + n}}};
    at += n;
  }
  auto text = header.dump();
  text.resize((text.size() + 8 + alignment - 1) / alignment * alignment - 8,
              ' ');
  uint64_t size = text.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  out += text;
  out.reserve(out.size() + at);
  for (auto& x : xs)
    out += x.value.data.text();
  return out;
}

} // namespace millrace
