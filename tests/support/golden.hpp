// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The content of the files in tests/golden/. Each value follows from the name
/// of its field alone, so that fields added later change no other value.

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <filesystem>

#include "models/bundle.hpp"
#include "runtime/store/store.hpp"
#include "transport/messages/all.hpp"
#include "transport/wire.hpp"

namespace millrace::test {

/// Sets each field to a value that is not its default.
class named_filler {
public:
  named_filler(std::string path, timestamp now, caf::strong_actor_ptr actor)
    : path_(std::move(path)),
      now_(now),
      actor_(std::move(actor)) {}

  template <declared T>
  void fill(T& x) {
    for_each_field(x, [this](std::string_view name, auto& member) {
      auto before = path_.size();
      path_.append(".").append(name);
      this->fill(member);
      path_.resize(before);
    });
  }
  void fill(bool& x) { x = !x; }
  template <std::integral T>
  void fill(T& x) {
    auto y = static_cast<T>(number());
    x = static_cast<T>(y == x ? y + 1 : y);
  }
  void fill(double& x) { x = 0.25 + static_cast<double>(number()); }
  void fill(std::string& x) { x = path_; }
  template <named_enum T>
  void fill(T& x) {
    auto next = static_cast<size_t>(x) + 1;
    x = static_cast<T>(next % names_of(T{}).size());
  }
  void fill(microseconds& x) { x = microseconds{1000 + number()}; }
  void fill(byte_count& x) { x.value = 1000 + static_cast<uint64_t>(number()); }
  void fill(deadline& x) { x.at = now_ + microseconds{1000 + number()}; }
  void fill(shape& x) { x = {2, 3}; }
  void fill(shared_bytes& x) { x = shared_bytes::copy_of(path_); }
  void fill(tensor& x) { x = *tensor::zeros(dtype::i32, {2, 3}); }
  /// Large enough for a separate frame.
  void fill(named_tensor& x) {
    x = {path_, *tensor::zeros(dtype::u8, {2, 600})};
  }
  void fill(caf::strong_actor_ptr& x) { x = actor_; }
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
    fill(x[path_ + ".key"]);
  }

private:
  /// A number from 1 to 99.
  int64_t number() const {
    uint32_t hash = 2'166'136'261;
    for (auto c : path_)
      hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619;
    return 1 + hash % 99;
  }

  std::string path_;
  timestamp now_;
  caf::strong_actor_ptr actor_;
};

/// Writes and compares golden messages, and provides an actor for their
/// handles.
class golden_frames : public address_book {
public:
  golden_frames();
  ~golden_frames() override;

  timestamp now() const { return timestamp{} + std::chrono::hours{1}; }

  template <declared T>
  T message() const {
    T out{};
    named_filler{std::string{T::record_name()}, now(), actor_}.fill(out);
    return out;
  }

  /// The header of a golden message of this type.
  header head(std::string_view type) const;

  /// All frames of an encoded message.
  template <declared T>
  std::vector<shared_bytes> frames() {
    auto x = make_wire_message(message<T>(), now(), this);
    auto first =
      std::string{encode_header(head(T::record_name()), now()).text()};
    std::vector<shared_bytes> out{
      shared_bytes::copy_of(first.append(x.body.text()))};
    out.insert(out.end(), x.attachments.begin(), x.attachments.end());
    return out;
  }

  std::string address_of(const caf::strong_actor_ptr& x) override;
  caf::strong_actor_ptr resolve(std::string_view address) override;

private:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::strong_actor_ptr actor_;
};

/// The manifest of golden bundles.
manifest golden_manifest();
tensor golden_parameter();

/// Name of the registry table in the golden journal.
constexpr auto golden_table = "models";
std::vector<std::pair<std::string, std::string>> golden_rows();

/// The lines of the golden audit log except the first.
std::vector<std::string> golden_lines();

/// Writes frames/TYPE, bundles/ and data/ into a folder.
result<void> write_golden(const std::filesystem::path& folder);

} // namespace millrace::test
