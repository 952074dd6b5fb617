// SPDX-License-Identifier: Apache-2.0
#include "models/travelling_bundle.hpp"

#include <algorithm>

#include "runtime/hash.hpp"
#include "runtime/text.hpp"

namespace millrace::travelling {

std::string id_of(const bundle& opened) {
  return sha256_hex(std::as_bytes(std::span{opened.text}));
}

result<std::vector<shared_bytes>> pieces_of(const bundle& opened) {
  if (opened.info.format < 2)
    return error{
      ec::bad_request,
      opened.directory
        + ": has the format of an earlier release, which cannot be sent;"
          " import it again",
      {}};
  auto many = opened.weights_file && opened.weights_file->chunks() > 1;
  std::vector<shared_bytes> out{
    shared_bytes::copy_of(opened.text),
    shared_bytes::copy_of(many ? opened.weights_file->list().text() : "")};
  out.insert(out.end(), opened.code.begin(), opened.code.end());
  return out;
}

result<bundle> begin(const std::string& id,
                     const std::vector<shared_bytes>& pieces,
                     const memory_maker& memory) {
  auto refuse = [&](const std::string& why) {
    return error{ec::bad_config, "bundle " + id + ": " + why, {}};
  };
  // No size in the manifest is used before this check.
  if (pieces.empty() || sha256_hex(pieces[0].view()) != id)
    return refuse("its manifest has another SHA-256");
  auto text = std::string{pieces[0].text()};
  auto info = parse_manifest(text, "bundle " + id);
  if (!info)
    return info.failure();
  if (info->format < 2 || pieces.size() != 2 + info->layers.size())
    return refuse("does not have the pieces that its manifest lists");
  auto name = info->name + "/" + std::to_string(info->version);
  bundle out{std::move(*info), std::move(name), std::move(text), {}, {},
             nullptr};
  for (size_t i = 0; i < out.info.layers.size(); ++i) {
    auto& layer = out.info.layers[i];
    auto& code = pieces[i + 2];
    if (code.size() != layer.code_bytes
        || !is_right(out.info, code.view(), layer.code_sha256))
      return refuse("the code of layer " + shown(layer.name)
                    + " has another SHA-256");
    out.code.push_back(code);
  }
  auto& weights = out.info.weights;
  auto& [file, bytes, sha256, unused] = weights;
  if (file.empty())
    return out;
  auto chunk = weights.bytes_of_chunk();
  auto chunks = bytes <= chunk
                  ? chunk_list::of_short_file(bytes, sha256, chunk)
                  : chunk_list::read(pieces[1].text(), bytes, sha256, chunk);
  if (!chunks)
    return refuse(chunks.failure().text);
  auto room = memory(out.directory + "/" + file, bytes, std::move(*chunks),
                     file_descriptor{});
  if (!room)
    return room.failure();
  out.weights_file = std::move(*room);
  return out;
}

chunk_range chunks_by_manifest(const manifest& info, size_t first,
                               size_t last) {
  MILLRACE_ASSERT(first <= last && last <= info.layers.size());
  if (info.layers.size() == 1)
    return {0, chunks_in(info.weights.bytes, info.weights.bytes_of_chunk())};
  auto end = info.weights.bytes;
  for (auto i = info.layers.size(); i > last; --i)
    end -= info.layers[i - 1].parameter_bytes;
  auto begin = end;
  for (auto i = last; i > first_needed(info, first, last); --i)
    begin -= info.layers[i - 1].parameter_bytes;
  return chunks_over(begin, end, info.weights.bytes_of_chunk());
}

chunk_range first_chunks(const bundle& opened) {
  auto& all = opened.info.weights.bytes;
  auto chunk = opened.info.weights.bytes_of_chunk();
  if (opened.info.layers.size() == 1)
    return chunks_over(0, all, chunk);
  auto head = all;
  for (auto& layer : opened.info.layers)
    head -= layer.parameter_bytes;
  return chunks_over(0, head, chunk);
}

namespace {

bool is_all(const bundle& x, size_t first, size_t last) {
  return first == 0 && (last == 0 || last >= x.info.layers.size());
}

/// The file, which makes the call, holds only a weak reference to the bundle.
void find_when_there(const std::shared_ptr<bundle>& x, chunk_range needed,
                     bool all_comes, std::function<void(result<void>)> tell) {
  auto find = [weak = std::weak_ptr{x}, all_comes,
               tell = std::move(tell)](const result<void>& there) {
    auto wanted = weak.lock();
    if (!wanted)
      return;
    if (!there)
      return tell(there);
    auto found = millrace::find_weights(*wanted);
    if (found && *found)
      return tell({});
    if (!found)
      return tell(found.failure());
    if (all_comes)
      return find_when_there(wanted, {0, wanted->weights_file->chunks()}, true,
                             tell);
    tell(error{ec::bad_config,
               wanted->weights_file->path()
                 + ": its tensors are not aligned, so that the model cannot be"
                   " sent in parts; import it again",
               {}});
  };
  if (auto& file = x->weights_file)
    file->when(needed, find);
  else
    find({});
}

} // namespace

std::vector<chunk_range> chunks_for(const bundle& opened, size_t first,
                                    size_t last) {
  if (is_all(opened, first, last))
    return {{0, chunks_in(opened.info.weights.bytes,
                          opened.info.weights.bytes_of_chunk())}};
  auto all = opened.info.layers.size();
  auto end = last == 0 ? all : std::min(last, all);
  return {first_chunks(opened),
          chunks_by_manifest(opened.info, std::min(first, end), end)};
}

bool has(const bundle& opened, size_t first, size_t last) {
  auto needed = chunks_for(opened, first, last);
  return !opened.weights_file
         || std::all_of(needed.begin(), needed.end(), [&](auto& chunks) {
              return opened.weights_file->has(chunks);
            });
}

void find_weights(const std::shared_ptr<bundle>& opened, size_t first,
                  size_t last, std::function<void(result<void>)> tell) {
  find_when_there(opened, first_chunks(*opened), is_all(*opened, first, last),
                  std::move(tell));
}

} // namespace millrace::travelling
