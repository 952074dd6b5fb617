// SPDX-License-Identifier: Apache-2.0

/// \file
/// Writes the golden files of this release; see README.md beside it.

#include <cstdio>

#include "tests/support/golden.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_files FOLDER\n");
    return 2;
  }
  auto done = millrace::test::write_golden(argv[1]);
  if (!done)
    std::fprintf(stderr, "%s\n", to_string(done.failure()).c_str());
  return done ? 0 : 1;
}
