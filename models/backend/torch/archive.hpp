// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/script.h>

namespace millrace {

/// Loads a TorchScript file in memory; only its tensors are copied. Untrusted
/// code (trusted is 0) is refused when it calls an operator that opens files;
/// the sources and the compiled code are checked. Tensors of the file other
/// than parameters, and tensors that the code makes on the CPU, go to device
/// `on`. Throws c10::Error for an invalid file, std::runtime_error for refused
/// code.
torch::jit::Module open_archive(const void* file, uint64_t bytes, int trusted,
                                c10::Device on = at::kCPU);

/// Whether any operator, at any depth of branches, matches.
bool any_node(const torch::jit::Block* block,
              bool (*is_such)(const torch::jit::Node&));

/// The same for all compiled code of a module.
bool any_node(const torch::jit::Module& m,
              bool (*is_such)(const torch::jit::Node&));

} // namespace millrace
