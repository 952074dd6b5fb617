// SPDX-License-Identifier: Apache-2.0
#include "models/npz.hpp"

#include <memory>

#include <zip.h>

#include "models/npy.hpp"

namespace millrace {

namespace {

constexpr size_t most_bytes = size_t{1} << 30;
constexpr zip_int64_t most_arrays = 1024;

} // namespace

result<std::vector<named_tensor>> read_npz(const std::string& path) {
  auto refused = [&](const std::string& why) {
    return error{ec::bad_request,
                 path + ": " + why
                   + " (expected a file of numpy.savez with an array for each"
                     " input, by its name)",
                 {}};
  };
  int code = 0;
  std::unique_ptr<zip_t, decltype(&zip_discard)> archive{
    zip_open(path.c_str(), ZIP_RDONLY, &code), zip_discard};
  if (!archive) {
    zip_error_t why;
    zip_error_init_with_code(&why, code);
    std::string text = zip_error_strerror(&why);
    zip_error_fini(&why);
    return refused(text);
  }
  auto count = zip_get_num_entries(archive.get(), 0);
  if (count < 1 || count > most_arrays)
    return refused("has " + std::to_string(count) + " arrays");
  std::vector<named_tensor> out;
  size_t left = most_bytes;
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t about;
    auto number = static_cast<zip_uint64_t>(i);
    if (zip_stat_index(archive.get(), number, 0, &about) != 0)
      return refused(zip_strerror(archive.get()));
    std::string name = about.name;
    if (!name.ends_with(".npy"))
      return refused("has a file " + name);
    if (about.size > left)
      return error{ec::too_large, path + ": has more than 1 GiB", {}};
    left -= about.size;
    std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file{
      zip_fopen_index(archive.get(), number, 0), zip_fclose};
    byte_buffer bytes{about.size};
    if (!file
        || zip_fread(file.get(), bytes.data(), about.size)
             != static_cast<zip_int64_t>(about.size))
      return refused(name + " cannot be read");
    auto value = read_npy(std::move(bytes).freeze());
    if (!value)
      return std::move(value.failure()).within(path + ": " + name);
    out.push_back({name.substr(0, name.size() - 4), std::move(*value)});
  }
  return out;
}

result<void> write_npz(const std::string& path,
                       const std::vector<named_tensor>& xs) {
  std::vector<std::string> arrays; // read by zip_close
  for (auto& x : xs) {
    auto text = write_npy(x.value);
    if (!text)
      return std::move(text.failure()).within(x.name);
    arrays.push_back(std::move(*text));
  }
  auto refused = [&](const std::string& why) {
    return error{ec::unavailable, path + ": " + why, {}};
  };
  std::unique_ptr<zip_t, decltype(&zip_discard)> archive{
    zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr), zip_discard};
  if (!archive)
    return refused("cannot be written");
  for (size_t i = 0; i < xs.size(); ++i) {
    auto* source =
      zip_source_buffer(archive.get(), arrays[i].data(), arrays[i].size(), 0);
    auto name = xs[i].name + ".npy";
    auto number =
      zip_file_add(archive.get(), name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (number < 0) {
      zip_source_free(source);
      return refused(zip_strerror(archive.get()));
    }
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(number),
                             ZIP_CM_STORE, 0);
  }
  if (zip_close(archive.get()) != 0)
    return refused(zip_strerror(archive.get()));
  static_cast<void>(archive.release());
  return {};
}

} // namespace millrace
