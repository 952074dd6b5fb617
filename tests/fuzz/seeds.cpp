// SPDX-License-Identifier: Apache-2.0

/// \file
/// Writes the seeds of the fuzz targets, one folder per target. For messages: a
/// good one of every type, and one with a crowded list for each list field. For
/// files: those of the project.

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "models/bundle.hpp"
#include "runtime/store/facts.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/hostile_files.hpp"
#include "tests/support/hostile_frames.hpp"
#include "tests/support/samples.hpp"
#include "transport/messages/all.hpp"

using namespace millrace;

namespace {

/// The folder of seeds; `good` is false once a seed could not be written.
struct seed_folder {
  std::filesystem::path path;
  bool good = true;

  void write(std::string_view type, std::string_view variant,
             const shared_bytes& body,
             const std::vector<shared_bytes>& attachments) {
    header head;
    head.v = protocol_version;
    head.t = type;
    head.id = 7;
    head.to = "node/router/m";
    head.from = "other/gateway";
    head.left = {fuzz::now() + 1s};
    auto first = std::string{encode_header(head, fuzz::now()).text()};
    std::vector<shared_bytes> frames{
      shared_bytes::copy_of(first.append(body.text()))};
    frames.insert(frames.end(), attachments.begin(), attachments.end());
    auto text = fuzz::join_frames(frames);
    auto file = path / (std::string{type} + std::string{variant});
    good &= static_cast<bool>(
      write_file(file.string(), std::as_bytes(std::span{text})));
  }
};

/// A map with one key and a list of 2,000 minimal values of one byte. Such a
/// list makes a careless decoder allocate most memory.
shared_bytes crowd(std::string_view key, char element) {
  std::string out{"\x81\xd9"};
  out += static_cast<char>(key.size());
  out += key;
  out += "\xdc\x07\xd0";
  out.append(2000, element);
  return shared_bytes::copy_of(out);
}

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

template <declared T>
void write_seeds_of(seed_folder& to) {
  auto x = test::sample<T>(fuzz::now());
  encoder out{fuzz::now(), nullptr};
  out.put(x);
  to.write(T::record_name(), "", out.take_body(), out.take_attachments());
  for_each_field(x, [&]<class M>(std::string_view name, M&) {
    if constexpr (is_list<M>) {
      to.write(T::record_name(), ".maps", crowd(name, '\x80'), {});
      to.write(T::record_name(), ".texts", crowd(name, '\xa0'), {});
    }
  });
}

template <class... Ts>
void write_seeds(seed_folder& to, std::tuple<Ts...>*) {
  (write_seeds_of<Ts>(to), ...);
}

/// A frame for which a careless decoder allocates most memory: alternating
/// types of messages, and a list of nearly empty values at the end.
void write_crowd(seed_folder& to, std::string_view name, bool forbidden) {
  std::string text;
  for (uint64_t id = 1; id <= 62; ++id) {
    frame_writer out;
    header head;
    head.id = id;
    if (id % 2 == 1 && !forbidden)
      out.add(head, infer{}, fuzz::now());
    else if (forbidden)
      out.add(head, hello{}, fuzz::now());
    else
      out.add(head, cancel{}, fuzz::now());
    text += out.take().first.text();
  }
  header last;
  last.v = protocol_version;
  last.t = "infer";
  last.id = 63;
  text += encode_header(last, fuzz::now()).text();
  text += std::string{"\x81\xa6inputs\xdc\x01\x2c", 11};
  for (int i = 0; i < 300; ++i)
    text += std::string{"\x81\xa5shape\x91\x00", 9};
  auto file = fuzz::join_frames({shared_bytes::copy_of(text)});
  to.good &= static_cast<bool>(
    write_file((to.path / name).string(), std::as_bytes(std::span{file})));
}

/// Requests in one frame, of which one message is not permitted to clients.
void write_group(seed_folder& to) {
  frame_writer out;
  for (uint64_t id = 1; id <= 5; ++id) {
    header head;
    head.id = id;
    if (id == 4)
      out.add(head, test::sample<hello>(fuzz::now()), fuzz::now());
    else
      out.add(head, test::sample<infer>(fuzz::now()), fuzz::now());
  }
  auto x = out.take();
  std::vector<shared_bytes> frames{x.first};
  frames.insert(frames.end(), x.raw.begin(), x.raw.end());
  auto text = fuzz::join_frames(frames);
  to.good &= static_cast<bool>(
    write_file((to.path / "group").string(), std::as_bytes(std::span{text})));
}

/// Messages of hostile clients; tests check the answer to each.
void write_hostile(seed_folder& to) {
  size_t i = 0;
  for (auto& xs : {test::hostile_envelopes(), test::hostile_tensors()})
    for (auto& x : xs) {
      std::vector<shared_bytes> frames{shared_bytes::copy_of(x.first)};
      for (auto& raw : x.raw)
        frames.push_back(shared_bytes::copy_of(raw));
      auto text = fuzz::join_frames(frames);
      auto file = to.path / ("hostile." + std::to_string(++i));
      to.good &= static_cast<bool>(
        write_file(file.string(), std::as_bytes(std::span{text})));
    }
}

} // namespace

namespace {

bool write_messages(const std::filesystem::path& folder) {
  seed_folder to{folder};
  std::filesystem::create_directories(to.path);
  write_seeds(to, static_cast<all_messages*>(nullptr));
  write_group(to);
  write_crowd(to, "crowd.mixed", false);
  write_crowd(to, "crowd.forbidden", true);
  write_hostile(to);
  return to.good;
}

bool write_text(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  return static_cast<bool>(
    write_file(file.string(), std::as_bytes(std::span{text})));
}

/// A journal of facts, one of orders, and a torn one.
bool write_journals(const std::filesystem::path& folder) {
  journal_end end;
  auto facts = next_record(end, pack_schema(1));
  for (int i = 1; i < 4; ++i)
    facts += next_record(
      end,
      pack({"models", {"m", std::string(20, 'x'), static_cast<uint64_t>(i)}}));
  end = {};
  auto orders = next_record(end, "begin after 0000");
  orders += next_record(end, "ops (operator) said drain to './supervisor'");
  return write_text(folder / "facts", facts)
         && write_text(folder / "torn", facts.substr(0, facts.size() - 3))
         && write_text(folder / "orders", orders);
}

bool write_hostile_files(const std::filesystem::path& folder,
                         const std::vector<test::hostile_file>& xs) {
  size_t i = 0;
  return std::all_of(xs.begin(), xs.end(), [&](auto& x) {
    return write_text(folder / ("hostile." + std::to_string(++i)), x.content);
  });
}

bool write_files(const std::filesystem::path& folder) {
  auto tensor = test::floats({2, 3});
  auto weights = write_safetensors({{"a", tensor}, {"b", tensor}});
  auto bundle = test::make_bundle("m", 1)->info;
  bundle.layers[0].code = "layers/model.pt";
  auto good =
    weights && write_text(folder / "safetensors/two", *weights)
    && write_text(folder / "manifest/small", print_manifest(bundle))
    && write_journals(folder / "journal")
    && write_hostile_files(folder / "safetensors", test::hostile_weights())
    && write_hostile_files(folder / "manifest", test::hostile_manifests());
  std::string keys = "keys:\n";
  for (char c : {'a', 'b'})
    keys += std::string{"  "} + c + ": {role: client, tenant: t, public_key: \""
            + std::string(40, c) + "\"}\n";
  good = good && write_text(folder / "allowed_keys/two", keys)
         && write_text(folder / "shell_line/quotes",
                       "explain \"a 'b'\" c\\ d '' # the rest")
         && write_text(folder / "shell_line/watch", "watch 2 queue digits");
  for (auto& from : {"/config", "/config/scenarios"})
    for (auto& x : std::filesystem::directory_iterator{
           std::string{MILLRACE_SOURCE} + from})
      if (x.path().extension() == ".yaml") {
        auto text = read_file(x.path().string(), 1 << 20);
        good = good && text
               && write_text(folder / "config" / x.path().filename(), *text);
      }
  return good;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  std::filesystem::path folder{argv[1]};
  return write_messages(folder / "client_frames")
             && write_messages(folder / "peer_frames") && write_files(folder)
           ? 0
           : 1;
}
