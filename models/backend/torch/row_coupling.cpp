// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/row_coupling.hpp"

#include <algorithm>
#include <set>
#include <unordered_set>

#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>

namespace millrace {

namespace jit = torch::jit;

namespace {

/// Calls within calls; deeper ones are not examined.
constexpr int max_calls = 32;

using names = std::set<std::string>;

/// Operators with results that depend on extents and types alone.
const names& of_extents() {
  static const names out{
    "aten::size",         "aten::dim",        "aten::len",
    "aten::numel",        "aten::stride",     "aten::is_floating_point",
    "aten::is_complex",   "aten::zeros_like", "aten::ones_like",
    "aten::empty_like",   "aten::rand_like",  "aten::randn_like",
    "aten::full_like",    "aten::new_zeros",  "aten::new_ones",
    "aten::new_empty",    "aten::new_full",   "aten::_shape_as_tensor",
    "prim::shape",        "prim::device",     "prim::dtype",
    "prim::layout",       "prim::is_cuda",    "prim::NumToTensor",
    "prim::requires_grad"};
  return out;
}

/// Operators that make numbers, or extents, of a tensor's values.
const names& of_values() {
  static const names out{"aten::item",           "aten::Int",
                         "aten::Float",          "aten::Bool",
                         "aten::IntImplicit",    "aten::FloatImplicit",
                         "aten::ScalarImplicit", "aten::ComplexImplicit",
                         "aten::is_nonzero",     "aten::_local_scalar_dense",
                         "aten::equal",          "aten::allclose",
                         "aten::nonzero",        "aten::nonzero_numpy",
                         "aten::argwhere",       "aten::masked_select",
                         "aten::bincount",       "aten::_unique2",
                         "aten::unique_dim",     "aten::unique_consecutive",
                         "aten::histc",          "prim::tolist"};
  return out;
}

/// Operators that reduce a whole tensor where no axis is given.
const names& of_all() {
  static const names out{
    "aten::max",     "aten::min",    "aten::mean",   "aten::sum",
    "aten::prod",    "aten::norm",   "aten::std",    "aten::var",
    "aten::amax",    "aten::amin",   "aten::any",    "aten::all",
    "aten::median",  "aten::argmax", "aten::argmin", "aten::logsumexp",
    "aten::nanmean", "aten::nansum", "aten::roll"};
  return out;
}

/// Operators that combine or move elements along an axis.
const names& along_an_axis() {
  static const names out{
    "aten::cumsum",  "aten::cumprod",  "aten::cummax",      "aten::cummin",
    "aten::mean",    "aten::sum",      "aten::prod",        "aten::norm",
    "aten::max",     "aten::min",      "aten::amax",        "aten::amin",
    "aten::argmax",  "aten::argmin",   "aten::any",         "aten::all",
    "aten::std",     "aten::var",      "aten::logsumexp",   "aten::median",
    "aten::softmax", "aten::nanmean",  "aten::log_softmax", "aten::nansum",
    "aten::sort",    "aten::argsort",  "aten::topk",        "aten::kthvalue",
    "aten::roll",    "aten::flip",     "aten::diff",        "aten::std_mean",
    "aten::cumsum_", "aten::var_mean", "aten::aminmax",     "aten::mode",
    "aten::flipud",  "aten::quantile", "aten::nanmedian",   "aten::renorm"};
  return out;
}

/// The constants that a value is, or is a list of; empty if one is not
/// constant.
std::vector<int64_t> whole_numbers(const jit::Value* x) {
  if (auto value = jit::toIValue(x)) {
    if (value->isInt())
      return {value->toInt()};
    return value->isIntList() ? value->toIntVector() : std::vector<int64_t>{};
  }
  std::vector<int64_t> out;
  if (x->node()->kind() == c10::prim::ListConstruct)
    for (auto* y : x->node()->inputs()) {
      auto value = jit::toIValue(y);
      if (!value || !value->isInt())
        return {};
      out.push_back(value->toInt());
    }
  return out;
}

/// The argument `dim` or `dims` of an operator; null if it has none.
const jit::Value* axes_of(const jit::Node& x) {
  auto* schema = x.maybeSchema();
  if (schema == nullptr)
    return nullptr;
  auto& arguments = schema->arguments();
  for (size_t i = 0; i < arguments.size() && i < x.inputs().size(); ++i)
    if (arguments[i].name() == "dim" || arguments[i].name() == "dims")
      return x.input(i);
  return nullptr;
}

/// Whether the axes of an operator are, or include, the first one.
bool is_along_first_axis(const jit::Node& x) {
  if (x.kind() == c10::Symbol::fromQualString("aten::flipud"))
    return true;
  auto* axes = axes_of(x);
  if (axes == nullptr)
    return false;
  auto numbers = whole_numbers(axes);
  return std::find(numbers.begin(), numbers.end(), 0) != numbers.end();
}

/// Whether the first axis of the result may differ from that of the inputs.
bool moves_first_axis(const jit::Node& x) {
  static const names always{"aten::t", "aten::numpy_T", "aten::mT",
                            "aten::einsum", "aten::movedim"};
  static const names if_first{"aten::stack", "aten::unbind", "aten::select",
                              "aten::unsqueeze"};
  std::string kind = x.kind().toQualString();
  if (always.count(kind) != 0)
    return true;
  if (if_first.count(kind) != 0)
    return is_along_first_axis(x);
  auto is_first = [&](size_t i) {
    auto axes = whole_numbers(x.input(i));
    return axes.size() == 1 && axes.front() == 0;
  };
  if (kind == "aten::transpose" && x.inputs().size() == 3)
    return is_first(1) || is_first(2);
  if (kind != "aten::permute" || x.inputs().size() != 2)
    return false;
  auto dims = whole_numbers(x.input(1));
  return dims.empty() || dims.front() != 0;
}

bool is_none(const jit::Value* x) {
  return x->type()->kind() == c10::TypeKind::NoneType;
}

bool is_empty_list(const jit::Value* x) {
  if (x->node()->kind() == c10::prim::ListConstruct)
    return x->node()->inputs().empty();
  auto list = jit::toIValue(x);
  return list && list->isIntList() && list->toIntList().empty();
}

/// Whether a reduction covers all axes: it has no argument for axes, or that is
/// None or an empty list.
bool takes_all(const jit::Node& x) {
  auto* schema = x.maybeSchema();
  if (schema == nullptr)
    return false;
  if (schema->name() == "aten::max" || schema->name() == "aten::min") {
    if (x.inputs().size() > 1 // two tensors: element by element
        && x.input(1)->type()->isSubtypeOf(*c10::TensorType::get()))
      return false;
  }
  auto* axes = axes_of(x);
  return axes == nullptr || is_none(axes) || is_empty_list(axes);
}

/// one_hot computes the number of classes, repeat_interleave that of rows.
bool finds_extent(const jit::Node& x) {
  std::string kind = x.kind().toQualString();
  if (kind == "aten::one_hot") {
    auto classes = jit::toIValue(x.input(1));
    return !classes || !classes->isInt() || classes->toInt() < 0;
  }
  return kind == "aten::repeat_interleave" && x.inputs().size() > 1
         && x.input(1)->type()->isSubtypeOf(*c10::TensorType::get());
}

/// "aten::max at model.py:12"
std::string described(const jit::Node& x) {
  std::string out = x.kind().toQualString();
  if (auto at = x.sourceRange().file_line_col()) {
    auto file = std::get<0>(*at);
    out += " at " + file.substr(file.rfind('/') + 1) + ":"
           + std::to_string(std::get<1>(*at));
  }
  return out;
}

void add(std::vector<std::string>& to, std::string x) {
  if (std::find(to.begin(), to.end(), x) == to.end())
    to.push_back(std::move(x));
}

/// Operators that return a view of the first argument.
const names& views() {
  static const names out{
    "aten::view",      "aten::select",  "aten::slice",      "aten::unsqueeze",
    "aten::squeeze",   "aten::expand",  "aten::t",          "aten::transpose",
    "aten::permute",   "aten::reshape", "aten::flatten",    "aten::detach",
    "aten::narrow",    "aten::alias",   "aten::expand_as",  "aten::view_as",
    "aten::unflatten", "prim::data",    "aten::__getitem__"};
  return out;
}

/// Follows the values of forward's inputs.
class examination {
public:
  explicit examination(const jit::Module& m)
    : graph_(m.get_method("forward").graph()->copy()) {
    for (int level = 0; level < max_calls; ++level)
      jit::Inline(*graph_);
    leave_training(graph_->block());
    jit::ConstantPropagationImmutableTypes(graph_);
    leave_checks(graph_->block());
    jit::EliminateDeadCode(graph_);
  }

  graph_findings run() {
    for (auto* x : graph_->inputs().slice(1))
      hold_values_.insert(x);
    follow(graph_->block());
    find_state(graph_->block());
    find_outputs();
    return std::move(found_);
  }

private:
  bool holds_values(const jit::Value* x) const {
    return hold_values_.count(x) != 0;
  }

  /// Removes branches for training.
  void leave_training(jit::Block* block) {
    for (auto* x : block->nodes()) {
      if (x->kind() == c10::prim::GetAttr
          && x->s(c10::attr::name) == "training") {
        jit::WithInsertPoint at{x};
        x->output()->replaceAllUsesWith(graph_->insertConstant(false));
      }
      for (auto* inner : x->blocks())
        leave_training(inner);
    }
  }

  static bool only_raises(jit::Block* block) {
    auto nodes = block->nodes();
    return std::all_of(nodes.begin(), nodes.end(), [](auto* x) {
      return x->kind() == c10::prim::RaiseException
             || (x->blocks().empty() && !x->hasSideEffects());
    });
  }

  /// Removes branches that only raise errors: they change no result.
  void leave_checks(jit::Block* block) {
    for (auto i = block->nodes().begin(); i != block->nodes().end();) {
      auto* x = *i++;
      for (auto* inner : x->blocks())
        leave_checks(inner);
      if (x->kind() == c10::prim::If && !x->hasUses()
          && only_raises(x->blocks()[0]) && only_raises(x->blocks()[1]))
        x->destroy();
    }
  }

  void follow(jit::Block* block) {
    for (auto* x : block->nodes())
      follow(*x);
  }

  void follow(jit::Node& x) {
    std::string kind = x.kind().toQualString();
    auto given = std::any_of(x.inputs().begin(), x.inputs().end(),
                             [&](auto* y) { return holds_values(y); });
    if (given && of_extents().count(kind) != 0)
      return;
    if (given
        && (of_values().count(kind) != 0 || finds_extent(x)
            || (of_all().count(kind) != 0 && takes_all(x))))
      add(found_.couples_rows, described(x));
    auto moved = std::any_of(x.inputs().begin(), x.inputs().end(),
                             [&](auto* y) { return moved_.count(y) != 0; });
    auto along = along_an_axis().count(kind) != 0 && is_along_first_axis(x);
    if (given && along && !moved)
      add(found_.couples_rows, described(x) + millrace_along_axis_0);
    // A reduction along the first axis removes the axis that stack added.
    if (moves_first_axis(x) || (moved && !along))
      for (auto* y : x.outputs())
        moved_.insert(y);
    // A loop's values return to its beginning: a second pass follows them.
    auto times = x.kind() == c10::prim::Loop ? 2 : 1;
    for (int i = 0; i < times; ++i)
      for (auto* block : x.blocks()) {
        if (given)
          for (auto* y : block->inputs())
            hold_values_.insert(y);
        follow(block);
        for (auto* y : block->outputs())
          given = given || holds_values(y);
      }
    if (given)
      for (auto* y : x.outputs())
        hold_values_.insert(y);
  }

  void find_outputs() {
    if (graph_->outputs().size() != 1)
      return;
    auto* x = graph_->outputs()[0]->node();
    if (x->kind() != c10::prim::DictConstruct)
      return;
    for (size_t i = 0; i + 1 < x->inputs().size(); i += 2) {
      auto key = jit::toIValue(x->input(i));
      auto is_tensor =
        x->input(i + 1)->type()->isSubtypeOf(*c10::TensorType::get());
      if (!key || !key->isString() || !is_tensor)
        return found_.outputs.clear();
      found_.outputs.push_back(key->toStringRef());
    }
  }

  /// Finds assignments to attributes, and writes to tensors in attributes.
  void find_state(jit::Block* block) {
    for (auto* x : block->nodes()) {
      if (x->kind() == c10::prim::SetAttr)
        add(found_.keeps_state,
            "attribute '" + x->s(c10::attr::name) + "', " + described(*x));
      for (auto* written : written_by(*x))
        if (auto* from = attribute_of(written)) {
          found_.writes_in_place = true;
          add(found_.keeps_state,
              "attribute '" + from->s(c10::attr::name) + "', " + described(*x));
        }
      for (auto* inner : x->blocks())
        find_state(inner);
    }
  }

  static std::vector<const jit::Value*> written_by(const jit::Node& x) {
    std::vector<const jit::Value*> out;
    if (auto* schema = x.maybeSchema())
      for (size_t i = 0;
           i < std::min(schema->arguments().size(), x.inputs().size()); ++i)
        if (auto* alias = schema->arguments()[i].alias_info();
            alias != nullptr && alias->isWrite())
          out.push_back(x.input(i));
    return out;
  }

  /// The node that reads an attribute of which this is a view; null for others.
  static const jit::Node* attribute_of(const jit::Value* x) {
    for (;;) {
      auto* node = x->node();
      if (node->kind() == c10::prim::GetAttr)
        return node;
      if (node->inputs().empty()
          || views().count(node->kind().toQualString()) == 0)
        return nullptr;
      x = node->input(0);
    }
  }

  std::shared_ptr<jit::Graph> graph_;
  std::unordered_set<const jit::Value*> hold_values_;
  /// Values with a first axis that may not be the rows.
  std::unordered_set<const jit::Value*> moved_;
  graph_findings found_;
};

} // namespace

graph_findings examine_graph(const jit::Module& m) {
  return examination{m}.run();
}

} // namespace millrace
