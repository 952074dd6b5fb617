// SPDX-License-Identifier: Apache-2.0
#include "models/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/sizes.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr size_t max_header = 16u << 20;
constexpr size_t max_tensors = 100'000;
constexpr size_t max_name = 512;
constexpr size_t alignment = 64;

error refused(std::string why) {
  return {ec::bad_request, "safetensors: " + std::move(why), {}};
}

/// Collects a header's tensors during parsing; keeps nothing else. The header
/// is an object of tensors, each an object with dtype, shape and data_offsets,
/// and at most one "__metadata__", an object of texts.
class header_reader : public nlohmann::json_sax<nlohmann::json> {
public:
  /// `data` are the bytes after the header.
  explicit header_reader(shared_bytes data) : data_(std::move(data)) {}

  result<std::vector<named_tensor>> run(std::string_view text) {
    out_.reserve(std::min(text.size() / least_entry, max_tensors) + 1);
    auto whole = nlohmann::json::sax_parse(text, this);
    if (error_)
      return *error_;
    if (!whole || !closed_)
      return refused("the header is not a JSON object");
    if (auto twice = name_twice(); !twice.empty())
      return refused("the header names " + shown(twice) + " twice");
    return std::move(out_);
  }

  bool null() override { return unexpected(); }
  bool boolean(bool) override { return unexpected(); }
  bool number_integer(int64_t) override { return unexpected(); } // negative
  bool number_float(double, const std::string&) override {
    return unexpected();
  }
  bool binary(nlohmann::json::binary_t&) override { return unexpected(); }

  bool number_unsigned(uint64_t number) override {
    if (in_ == place::shape) {
      if (number > INT64_MAX)
        return fail("has an extent that is no size");
      if (rank_ == shape::max_rank)
        return fail("has too many dimensions");
      extents_[rank_++] = static_cast<int64_t>(number);
      return true;
    }
    if (in_ != place::offsets)
      return unexpected();
    if (offset_count_ < offsets_.size())
      offsets_[offset_count_] = number;
    ++offset_count_;
    return true;
  }

  bool string(std::string& text) override {
    if (in_ == place::metadata)
      return true;
    if (in_ != place::tensor || key_ != "dtype")
      return unexpected();
    type_ = from_string<dtype>(text);
    return type_ ? true : fail("has an unknown dtype");
  }

  bool start_object(size_t) override {
    if (in_ == place::outside && !closed_) {
      in_ = place::header;
      return true;
    }
    if (in_ != place::header)
      return unexpected();
    if (is_metadata_) {
      in_ = place::metadata;
      return true;
    }
    in_ = place::tensor;
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    return true;
  }

  bool key(std::string& name) override {
    switch (in_) {
    case place::header:
      name_ = name;
      is_metadata_ = name == "__metadata__";
      if (name.size() > max_name)
        return fail("has a name of more than 512 bytes");
      return !is_metadata_ || !std::exchange(seen_metadata_, true)
             || fail("is there twice");
    case place::tensor:
      key_ = name;
      return first_time();
    default:
      return true;
    }
  }

  bool end_object() override {
    if (in_ == place::header) {
      in_ = place::outside;
      closed_ = true;
      return true;
    }
    auto was_tensor = in_ == place::tensor;
    in_ = place::header;
    return !was_tensor || take_tensor();
  }

  bool start_array(size_t) override {
    if (in_ != place::tensor || key_ == "dtype")
      return unexpected();
    in_ = key_ == "shape" ? place::shape : place::offsets;
    (in_ == place::shape ? rank_ : offset_count_) = 0;
    return true;
  }

  bool end_array() override {
    in_ = place::tensor;
    return true;
  }

  bool parse_error(size_t, const std::string&,
                   const nlohmann::json::exception&) override {
    return false;
  }

private:
  /// The element that the parser is in.
  enum class place : uint8_t {
    outside,
    header,
    metadata,
    tensor,
    shape,
    offsets
  };

  /// Lower limit of the bytes that one tensor takes in a header.
  static constexpr size_t least_entry =
    std::string_view{R"("":{"dtype":"U8","shape":[],"data_offsets":[0,1]})"}
      .size();

  bool fail(const char* why) {
    error_ = refused("tensor " + shown(name_) + " " + why);
    return false;
  }

  bool unexpected() {
    if (in_ == place::outside || in_ == place::header)
      return false; // not an object
    switch (in_) {
    case place::shape:
      return fail("has an extent that is no size");
    case place::offsets:
      return fail("has offsets that are no sizes");
    default:
      return fail("lacks dtype, shape or data_offsets");
    }
  }

  bool first_time() {
    auto* seen = key_ == "dtype"          ? &seen_dtype_
                 : key_ == "shape"        ? &seen_shape_
                 : key_ == "data_offsets" ? &seen_offsets_
                                          : nullptr;
    if (seen == nullptr)
      return fail("has another key than dtype, shape and data_offsets");
    return !std::exchange(*seen, true) || fail("names a key twice");
  }

  bool take_tensor() {
    if (!seen_dtype_ || !seen_shape_ || !seen_offsets_
        || offset_count_ != offsets_.size())
      return fail("lacks dtype, shape or data_offsets");
    if (out_.size() == max_tensors) {
      error_ = refused("more than 100000 tensors");
      return false;
    }
    auto [begin, end] = offsets_;
    if (begin > end || end > data_.size())
      return fail("lies outside the file");
    auto dims = *shape::of({extents_.data(), rank_});
    auto n = dense_bytes(*type_, dims);
    if (!n || *n != end - begin)
      return fail("has a length that is not its shape times its dtype");
    out_.push_back({std::move(name_),
                    tensor{*type_, dims, data_.slice(begin, end - begin)}});
    return true;
  }

  /// A name that two tensors have; empty if all names differ.
  std::string name_twice() const {
    std::vector<const std::string*> names;
    names.reserve(out_.size());
    for (auto& x : out_)
      names.push_back(&x.name);
    std::sort(names.begin(), names.end(),
              [](auto* x, auto* y) { return *x < *y; });
    auto i = std::adjacent_find(names.begin(), names.end(),
                                [](auto* x, auto* y) { return *x == *y; });
    return i == names.end() ? std::string{} : **i;
  }

  shared_bytes data_;
  std::vector<named_tensor> out_;
  std::optional<error> error_;
  place in_ = place::outside;
  bool closed_ = false; ///< the object of the header has ended
  bool is_metadata_ = false;
  bool seen_metadata_ = false;
  std::string name_; ///< of the current tensor; as the fields below
  std::string key_;
  bool seen_dtype_ = false, seen_shape_ = false, seen_offsets_ = false;
  std::optional<dtype> type_;
  std::array<int64_t, shape::max_rank> extents_{};
  size_t rank_ = 0;
  std::array<uint64_t, 2> offsets_{};
  size_t offset_count_ = 0;
};

/// Whether a tensor's elements are not aligned for their type.
bool is_askew(const tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data.data()) % size_of(x.type) != 0;
}

/// Copies the unaligned tensors, all into one piece of memory.
result<void> put_straight(std::vector<named_tensor>& xs,
                          const std::function<result<void>()>& see_to_it) {
  auto room_of = [](const shared_bytes& x) { return rounded_up(x.size(), 8); };
  std::vector<shared_bytes*> askew;
  size_t bytes = 0;
  for (auto& x : xs)
    if (is_askew(x.value)) {
      askew.push_back(&x.value.data);
      bytes += room_of(x.value.data);
    }
  if (askew.empty())
    return {};
  if (auto there = see_to_it(); !there)
    return there;
  byte_buffer room{bytes};
  auto* to = room.data();
  for (auto* x : askew) {
    std::memcpy(to, x->data(), x->size());
    to += room_of(*x);
  }
  auto straight = std::move(room).freeze();
  bytes = 0;
  for (auto* x : askew) {
    auto n = room_of(*x);
    *x = straight.slice(bytes, x->size());
    bytes += n;
  }
  return {};
}

} // namespace

result<uint64_t> safetensors_head(const_bytes first, uint64_t file_bytes) {
  uint64_t header_size = 0;
  if (first.size() < sizeof header_size)
    return refused("the file is shorter than 8 bytes");
  std::memcpy(&header_size, first.data(), sizeof header_size);
  if (header_size > max_header || header_size > file_bytes - 8)
    return refused("the header's length of " + std::to_string(header_size)
                   + " is over 16 MiB or over the file");
  return sizeof header_size + header_size;
}

result<std::vector<named_tensor>>
read_safetensors(const shared_bytes& file,
                 const std::function<result<void>()>& see_to_it) {
  auto head = safetensors_head(file.view(), file.size());
  if (!head)
    return head.failure();
  auto data = file.slice(*head, file.size() - *head);
  auto out = header_reader{data}.run(file.text().substr(8, *head - 8));
  if (!out)
    return out;
  // A tensor without bytes comes before the tensor at the same offset.
  std::stable_sort(out->begin(), out->end(), [](auto& x, auto& y) {
    return std::pair{x.value.data.data(), x.value.data.size()}
           < std::pair{y.value.data.data(), y.value.data.size()};
  });
  auto* at = data.data();
  for (auto& x : *out) {
    if (x.value.data.data() != at)
      return refused("tensor " + shown(x.name)
                     + " leaves a hole or overlaps another");
    at += x.value.data.size();
  }
  if (at != data.data() + data.size())
    return refused("bytes follow the last tensor");
  if (auto done = put_straight(*out, see_to_it); !done)
    return done.failure();
  return out;
}

result<std::string>
write_safetensors_head(const std::vector<tensor_entry>& xs) {
  auto header = nlohmann::ordered_json::object();
  uint64_t at = 0;
  for (auto& x : xs) {
    if (header.contains(x.name))
      return refused("two tensors are named " + shown(x.name));
    header[x.name] = {{"dtype", std::string{to_string(x.type)}},
                      {"shape", x.extents},
                      {"data_offsets", {at, at + x.bytes}}};
    at += x.bytes;
  }
  auto text = header.dump();
  text.resize(rounded_up(text.size() + 8, alignment) - 8, ' ');
  uint64_t size = text.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  out += text;
  return out;
}

result<std::string> write_safetensors(const std::vector<named_tensor>& xs) {
  std::vector<tensor_entry> entries;
  for (auto& x : xs)
    entries.push_back({x.name,
                       x.value.type,
                       {x.value.extents.begin(), x.value.extents.end()},
                       x.value.data.size()});
  auto out = write_safetensors_head(entries);
  if (!out)
    return out;
  out->reserve(out->size() + bytes_of(xs));
  for (auto& x : xs)
    *out += x.value.data.text();
  return out;
}

} // namespace millrace
