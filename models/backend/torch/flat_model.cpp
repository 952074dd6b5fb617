// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/flat_model.hpp"

#include <algorithm>

#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

namespace millrace {

namespace jit = torch::jit;
namespace prim = c10::prim;

namespace {

/// Joins names by dots: "encoder.layer.3".
std::string dotted(const std::vector<std::string>& names) {
  std::string out;
  for (auto& x : names)
    out += (out.empty() ? "" : ".") + x;
  return out;
}

/// Sets the part of a node, and of the nodes in its branches.
void set_whose(jit::Node* x, const std::string& path) {
  if (path.empty())
    return;
  x->setScope(
    c10::make_intrusive<jit::Scope>()->push(c10::Symbol::scope(path)));
  for (auto* block : x->blocks())
    for (auto* inner : block->nodes())
      set_whose(inner, path);
}

jit::GraphFunction* callee_of(jit::Node* x) {
  if (x->kind() == prim::CallMethod)
    if (auto type = x->input(0)->type()->cast<c10::ClassType>())
      return jit::tryToGraphFunction(type->getMethod(x->s(c10::attr::name)));
  if (x->kind() == prim::CallFunction)
    return jit::tryToGraphFunction(
      *x->input(0)->type()->expect<c10::FunctionType>()->function());
  return nullptr;
}

} // namespace

void refuse_cut(const std::string& why) {
  throw std::runtime_error("cannot be cut into layers: " + why);
}

std::vector<std::string> path_of(const jit::Value* value,
                                 const jit::Value* model) {
  std::vector<std::string> out;
  for (; value != model; value = value->node()->input(0)) {
    if (value->node()->kind() != prim::GetAttr)
      refuse_cut("it calls parts of itself that it finds while it runs");
    out.push_back(value->node()->s(c10::attr::name));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void collect_uses(jit::Node* node, std::vector<jit::Value*>& out) {
  for (auto* v : node->inputs())
    out.push_back(v);
  for (auto* block : node->blocks()) {
    for (auto* inner : block->nodes())
      collect_uses(inner, out);
    for (auto* v : block->outputs())
      out.push_back(v);
  }
}

flat_model::flat_model(const jit::Module& whole, size_t inputs)
  : graph_(whole.get_method("forward").graph()->copy()) {
  bind_rest(inputs);
  inline_calls(graph_->block());
  leave_training(graph_->block());
  // Only constants of numbers and None: to make tensors would run the model's
  // own operators, even those in branches that are never taken.
  jit::ConstantPropagationImmutableTypes(graph_);
  lift_parameters(graph_->block());
  jit::RemoveTensorMutation(graph_);
  jit::EliminateDeadCode(graph_);
}

std::string flat_model::whose(jit::Node* node) {
  return node->scope()->isBlank() || node->scope()->isRoot()
           ? ""
           : node->scope()->name().toUnqualString();
}

/// Omitted arguments are None.
void flat_model::bind_rest(size_t inputs) {
  while (graph_->inputs().size() > inputs + 1) {
    auto* x = graph_->inputs().back();
    jit::WithInsertPoint at{graph_->block()->nodes().front()};
    auto* none = graph_->insertConstant(c10::IValue{});
    none->setType(x->type());
    x->replaceAllUsesWith(none);
    graph_->eraseInput(graph_->inputs().size() - 1);
  }
}

void flat_model::inline_calls(jit::Block* block) {
  for (auto* x = *block->nodes().begin(); x != block->return_node();) {
    auto* next = x->next();
    if (auto* callee = callee_of(x)) {
      auto path = whose(x);
      if (x->kind() == prim::CallMethod) {
        auto called = dotted(path_of(x->input(0), self()));
        if (called.size() > path.size())
          path = std::move(called);
      } else {
        x->removeInput(0); // the function
      }
      auto* before = x->prev();
      jit::inlineCallTo(x, callee, false);
      for (auto* y = before->next(); y != next; y = y->next())
        set_whose(y, path);
      next = before->next(); // Calls within it are next.
    } else {
      for (auto* inner : x->blocks())
        inline_calls(inner);
    }
    x = next;
  }
}

/// Removes branches for training.
void flat_model::leave_training(jit::Block* block) {
  for (auto* x : block->nodes()) {
    if (x->kind() == prim::GetAttr && x->s(c10::attr::name) == "training") {
      jit::WithInsertPoint at{x};
      x->output()->replaceAllUsesWith(graph_->insertConstant(false));
    }
    for (auto* inner : x->blocks())
      leave_training(inner);
  }
}

/// Moves parameters out of branches, before the enclosing node of forward, so
/// that each is read from the model itself.
void flat_model::lift_parameters(jit::Block* block, jit::Node* top) {
  for (auto* x = *block->nodes().begin(); x != block->return_node();) {
    auto* next = x->next();
    if (x->kind() == prim::SetAttr)
      refuse_cut("it changes itself while it runs");
    if (top && x->kind() == prim::GetAttr)
      x->moveBefore(top);
    for (auto* inner : x->blocks())
      lift_parameters(inner, top ? top : x);
    x = next;
  }
}

} // namespace millrace
