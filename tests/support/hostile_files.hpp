// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Files of a bundle as nobody should write them, once: for unit tests, for
/// fuzzers to start from, and for a node to find among its models.

#include <string>
#include <vector>

namespace millrace::test {

struct hostile_file {
  std::string item; ///< of the list of promise P11
  std::string content;
  std::string says; ///< the refusal's text, without the file's name
};

/// safetensors: offsets, shapes, dtypes.
std::vector<hostile_file> hostile_weights();

/// model.yaml: paths, names, sizes, hashes, aliases.
std::vector<hostile_file> hostile_manifests();

/// A manifest in order, of one layer in layers/model.pt, which has four bytes,
/// "code".
std::string good_manifest();

} // namespace millrace::test
