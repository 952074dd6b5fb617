// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/script.h>

namespace millrace {

/// Loads a TorchScript file that lies in memory, and that nothing of is copied
/// but tensors. Code that nobody vouches for (trusted is 0) is refused when it
/// calls an operator that opens files, by what its sources say and by what they
/// were compiled to. What it has beside parameters, and the tensors that it
/// makes where its code says on the host's processors, are on that device then.
/// Throws c10::Error for what is no such file, std::runtime_error for what is
/// refused.
torch::jit::Module open_archive(const void* file, uint64_t bytes, int trusted,
                                c10::Device on = at::kCPU);

/// Whether some operator, at any depth of branches, is such a one.
bool any_node(const torch::jit::Block* block,
              bool (*is_such)(const torch::jit::Node&));

/// The same of all that a module was compiled to.
bool any_node(const torch::jit::Module& m,
              bool (*is_such)(const torch::jit::Node&));

} // namespace millrace
