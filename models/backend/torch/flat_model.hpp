// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <torch/script.h>

#include <torch/csrc/jit/ir/ir.h>

namespace millrace {

/// Throws: "cannot be cut into layers: ...".
[[noreturn]] void refuse_cut(const std::string& why);

/// The names from a model to a submodule, or to a parameter; throws for values
/// that are not the model's own.
std::vector<std::string> path_of(const torch::jit::Value* value,
                                 const torch::jit::Value* model);

/// Collects all values that a node uses, with those in its branches.
void collect_uses(torch::jit::Node* node, std::vector<torch::jit::Value*>& out);

/// A model's forward with all calls inlined and without code for training. Each
/// node keeps the part of the model that it came from.
class flat_model {
public:
  /// Takes the first `inputs` arguments; others are None.
  flat_model(const torch::jit::Module& whole, size_t inputs);

  torch::jit::Graph& graph() const { return *graph_; }
  torch::jit::Value* self() const { return graph_->inputs()[0]; }

  /// The part of the model that a node came from, as a dotted path:
  /// "encoder.layer.3".
  static std::string whose(torch::jit::Node* node);

private:
  void bind_rest(size_t inputs);
  void inline_calls(torch::jit::Block* block);
  void leave_training(torch::jit::Block* block);
  void lift_parameters(torch::jit::Block* block,
                       torch::jit::Node* top = nullptr);

  std::shared_ptr<torch::jit::Graph> graph_;
};

} // namespace millrace
