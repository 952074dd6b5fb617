// SPDX-License-Identifier: Apache-2.0

/// \file
/// Runs a fuzz target over the files of folders, with any compiler and without
/// libFuzzer.

#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "runtime/bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  size_t n = 0;
  for (int i = 1; i < argc; ++i)
    for (auto& x : std::filesystem::directory_iterator{argv[i]}) {
      auto file = millrace::map_file(x.path().string());
      if (!file) {
        std::fprintf(stderr, "%s\n", to_string(file.failure()).c_str());
        return 1;
      }
      std::fprintf(stderr, "%s\n", x.path().c_str());
      LLVMFuzzerTestOneInput(
        reinterpret_cast<const uint8_t*>(file->content.data()),
        file->content.size());
      ++n;
    }
  std::fprintf(stderr, "%zu inputs\n", n);
  return n == 0 ? 1 : 0;
}
