// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Invalid bundle files, shared by unit tests, by the seeds of fuzzers, and by
/// the models of a node under test.

#include <string>
#include <vector>

namespace millrace::test {

struct hostile_file {
  std::string item; ///< item in the list of P11
  std::string content;
  std::string says; ///< expected error text without the file name
};

/// safetensors: offsets, shapes, dtypes.
std::vector<hostile_file> hostile_weights();

/// model.yaml: paths, names, sizes, hashes, aliases.
std::vector<hostile_file> hostile_manifests();

/// A valid manifest of one layer in layers/model.pt, a file of the four bytes
/// "code".
std::string good_manifest();

} // namespace millrace::test
