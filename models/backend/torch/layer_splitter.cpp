// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/layer_splitter.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "models/backend/torch/flat_model.hpp"

namespace millrace {

namespace {

namespace jit = torch::jit;
namespace prim = c10::prim;

/// The first `depth` names of a dotted path.
std::string first_names(const std::string& path, size_t depth) {
  size_t end = 0;
  for (; depth > 0 && end != std::string::npos; --depth)
    end = path.find('.', end == 0 ? 0 : end + 1);
  return path.substr(0, end);
}

bool is_tensor(const jit::Value* x) {
  return x->type()->isSubtypeOf(*c10::TensorType::get());
}

/// Whether a value is computed again where it is used, not passed on: numbers
/// and lists, also those that a trace keeps as tensors.
bool is_remade(const jit::Value* x) {
  return !is_tensor(x) || x->node()->kind() == prim::NumToTensor;
}

/// Whether the outputs of a node need no layer: they are attributes of the
/// model, or computed again.
bool is_found_anywhere(jit::Node* x) {
  if (x->kind() == prim::GetAttr || x->kind() == prim::Constant)
    return true;
  return !x->outputs().empty()
         && std::all_of(x->outputs().begin(), x->outputs().end(), is_remade);
}

/// The nodes of a future layer, in order.
struct run_of_nodes {
  std::string name;
  std::vector<jit::Node*> nodes;
  bool has_parameters = false;
};

bool uses_parameters(jit::Node* x) {
  std::vector<jit::Value*> used;
  collect_uses(x, used);
  return std::any_of(used.begin(), used.end(), [](auto* v) {
    return v->node()->kind() == prim::GetAttr;
  });
}

/// Groups consecutive nodes of the same part. Values that are computed again
/// belong to no group.
std::vector<run_of_nodes> runs_of(const flat_model& x, size_t depth) {
  std::vector<run_of_nodes> out;
  std::string last;
  for (auto* node : x.graph().block()->nodes()) {
    if (is_found_anywhere(node))
      continue;
    auto path = first_names(x.whose(node), depth);
    if (out.empty() || path != last)
      out.push_back({path.empty() ? "forward" : path, {}});
    auto& run = out.back();
    run.nodes.push_back(node);
    run.has_parameters = run.has_parameters || uses_parameters(node);
    last = std::move(path);
  }
  return out;
}

/// The common beginning of two paths, or the first path where there is none.
std::string common_name(const std::string& a, const std::string& b) {
  size_t same = 0;
  for (size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    auto end = [&](const std::string& x) {
      return i == x.size() || x[i] == '.';
    };
    if (end(a) && end(b))
      same = i;
    if (i < a.size() && i < b.size() && a[i] != b[i])
      break;
  }
  return same == 0 ? a : a.substr(0, same);
}

/// Joins two groups; the name is that of the groups with parameters.
void join(run_of_nodes& to, const run_of_nodes& x) {
  if (!to.has_parameters)
    to.name = x.name;
  else if (x.has_parameters)
    to.name = common_name(to.name, x.name);
  to.has_parameters = to.has_parameters || x.has_parameters;
  to.nodes.insert(to.nodes.end(), x.nodes.begin(), x.nodes.end());
}

std::vector<run_of_nodes> put_together(std::vector<run_of_nodes> xs,
                                       const std::vector<size_t>& firsts) {
  if (firsts.empty())
    return xs;
  std::vector<run_of_nodes> out;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (i == 0 || std::count(firsts.begin(), firsts.end(), i) != 0) {
      out.push_back(std::move(xs[i]));
      continue;
    }
    join(out.back(), xs[i]);
  }
  return out;
}

/// Makes names unique: "layers.0", and "layers.0-2" where that is taken.
void make_unique_names(std::vector<run_of_nodes>& xs) {
  std::set<std::string> taken;
  for (auto& x : xs) {
    auto name = x.name;
    for (int n = 2; !taken.insert(name).second; ++n)
      name = x.name + "-" + std::to_string(n);
    x.name = std::move(name);
  }
}

/// Builds one layer's module: a graph of its own, with the layer's inputs, and
/// the model's parameters under their names.
class layer_maker {
public:
  layer_maker(const jit::Module& whole, const flat_model& flat)
    : whole_(whole),
      flat_(flat),
      module_("__torch__.layer", std::make_shared<jit::CompilationUnit>()),
      graph_(std::make_shared<jit::Graph>()) {
    made_[flat_.self()] = graph_->addInput("self");
    made_[flat_.self()]->setType(module_.type());
    modules_.emplace("", module_);
    places_.emplace("", made_[flat_.self()]);
  }

  void take(jit::Value* x, const std::string& name) {
    auto* mine = graph_->addInput(name);
    mine->setType(x->type());
    made_[x] = mine;
  }

  void add(jit::Node* x) {
    bring_uses(x);
    auto* mine = graph_->createClone(x, [this](jit::Value* v) {
      auto i = made_.find(v);
      // Else it belongs to a branch of x.
      return i == made_.end() ? v : i->second;
    });
    graph_->appendNode(mine);
    for (size_t i = 0; i < x->outputs().size(); ++i)
      made_[x->outputs()[i]] = mine->outputs()[i];
  }

  /// Sets the outputs of forward: a single value, or a tuple of tensors.
  jit::Module finish(const std::vector<jit::Value*>& outputs) {
    for (auto* x : outputs)
      bring(x);
    if (outputs.size() == 1) {
      graph_->registerOutput(made_.at(outputs[0]));
    } else {
      std::vector<jit::Value*> mine;
      for (auto* x : outputs)
        mine.push_back(made_.at(x));
      auto* all = graph_->createTuple(mine);
      graph_->appendNode(all);
      graph_->registerOutput(all->output());
    }
    graph_->lint();
    auto& unit = *module_._ivalue()->compilation_unit();
    module_.type()->addMethod(unit.create_function(
      c10::QualifiedName{*module_.type()->name(), "forward"}, graph_));
    return module_;
  }

private:
  bool is_of_forward(const jit::Value* x) const {
    return x->node()->owningBlock() == flat_.graph().block();
  }

  void bring_uses(jit::Node* x) {
    std::vector<jit::Value*> used;
    collect_uses(x, used);
    for (auto* v : used)
      if (is_of_forward(v))
        bring(v);
  }

  /// Provides a value in this graph: a parameter, or a value computed again.
  void bring(jit::Value* x) {
    if (made_.count(x) != 0)
      return;
    if (x->node()->kind() == prim::GetAttr)
      made_[x] = parameter(x);
    else
      add(x->node());
  }

  jit::Value* parameter(const jit::Value* x) {
    auto path = path_of(x, flat_.self());
    auto name = path.back();
    path.pop_back();
    auto owner = part(path);
    jit::Module from = whole_;
    for (auto& step : path)
      from = from.attr(step).toModule();
    auto type = from.type();
    auto slot = type->getAttributeSlot(name);
    auto value = from.attr(name);
    if (value.isModule())
      refuse_cut("it uses a part of itself as a value");
    auto& to = modules_.at(owner);
    if (!to.hasattr(name)) {
      if (value.isTensor() && type->is_parameter(slot))
        to.register_parameter(name, value.toTensor().detach(), false);
      else if (value.isTensor() && type->is_buffer(slot))
        to.register_buffer(name, value.toTensor().detach());
      else
        to.register_attribute(name, type->getAttribute(slot), value);
    }
    auto* out = graph_->insertGetAttr(places_.at(owner), name);
    out->setType(type->getAttribute(slot));
    return out;
  }

  /// Creates the submodule at a path; returns its key in modules_.
  std::string part(const std::vector<std::string>& path) {
    std::string at;
    for (auto& step : path) {
      auto next = at + "." + step;
      if (modules_.count(next) == 0) {
        jit::Module inner{"__torch__.part_" + std::to_string(modules_.size()),
                          module_._ivalue()->compilation_unit()};
        modules_.at(at).register_module(step, inner);
        auto* place = graph_->insertGetAttr(places_.at(at), step);
        place->setType(inner.type());
        modules_.emplace(next, inner);
        places_.emplace(next, place);
      }
      at = std::move(next);
    }
    return at;
  }

  const jit::Module& whole_;
  const flat_model& flat_;
  jit::Module module_;
  std::shared_ptr<jit::Graph> graph_;
  /// Values here, by those of the model.
  std::map<const jit::Value*, jit::Value*> made_;
  std::map<std::string, jit::Module> modules_; ///< by path
  std::map<std::string, jit::Value*> places_;
};

/// The values that cross the cuts, and each layer's module.
class splitter {
public:
  splitter(const jit::Module& whole, const flat_model& flat,
           std::vector<run_of_nodes> runs)
    : whole_(whole),
      flat_(flat),
      runs_(std::move(runs)) {
    for (size_t i = 0; i < runs_.size(); ++i)
      for (auto* node : runs_[i].nodes)
        run_of_[node] = i;
    auto schema = whole.get_method("forward").function().getSchema();
    size_t n = 0;
    for (auto* x : flat.graph().inputs().slice(1)) {
      names_[x] = schema.arguments()[n + 1].name();
      order_[x] = n++;
    }
    for (auto* node : flat.graph().block()->nodes())
      for (auto* x : node->outputs())
        order_[x] = n++;
  }

  /// The groups without those that give no value to later ones, such as checks
  /// that raise an error for some inputs. These join the next group.
  std::vector<run_of_nodes> that_give() {
    find_crossings();
    std::vector<run_of_nodes> out;
    bool gives = true; // for the last of `out`
    for (size_t i = 0; i < runs_.size(); ++i) {
      gives ? out.push_back(runs_[i]) : join(out.back(), runs_[i]);
      gives = !given_by(i).empty();
    }
    return out;
  }

  std::vector<split_layer> split() {
    find_crossings();
    std::vector<split_layer> out;
    for (size_t i = 0; i < runs_.size(); ++i)
      out.push_back(make_layer(i));
    return out;
  }

private:
  /// In the order of the nodes.
  struct by_order {
    const std::map<const jit::Value*, size_t>* order;
    bool operator()(const jit::Value* a, const jit::Value* b) const {
      return order->at(a) < order->at(b);
    }
  };
  using value_set = std::set<jit::Value*, by_order>;

  /// Adds the tensors from earlier groups that a value depends on.
  void trace_back(jit::Value* x, size_t run, value_set& out,
                  std::set<jit::Value*>& seen) {
    if (x == flat_.self() || !seen.insert(x).second)
      return;
    auto* node = x->node();
    if (node->kind() == prim::Param
        && node->owningBlock() == flat_.graph().block()) {
      out.insert(x);
      return;
    }
    if (node->owningBlock() != flat_.graph().block()
        || node->kind() == prim::Constant || node->kind() == prim::GetAttr)
      return;
    if (auto i = run_of_.find(node); i != run_of_.end()) {
      if (i->second < run)
        out.insert(x);
      return;
    }
    std::vector<jit::Value*> used;
    collect_uses(node, used);
    for (auto* v : used)
      trace_back(v, run, out, seen);
  }

  void find_crossings() {
    crossings_.assign(runs_.size() + 1, value_set{by_order{&order_}});
    for (auto i = runs_.size(); i-- > 0;) {
      std::vector<jit::Value*> used;
      if (i + 1 == runs_.size())
        for (auto* x : flat_.graph().outputs())
          used.push_back(x);
      used.insert(used.end(), crossings_[i + 1].begin(),
                  crossings_[i + 1].end());
      for (auto* node : runs_[i].nodes)
        collect_uses(node, used);
      std::set<jit::Value*> seen;
      for (auto* x : used)
        trace_back(x, i, crossings_[i], seen);
    }
  }

  /// Values that group i gives to later groups, in order.
  std::vector<jit::Value*> given_by(size_t i) const {
    std::vector<jit::Value*> out;
    for (auto* x : crossings_[i + 1])
      if (crossings_[i].count(x) == 0)
        out.push_back(x);
    return out;
  }

  split_layer make_layer(size_t i) {
    auto last = i + 1 == runs_.size();
    std::vector<jit::Value*> used, outputs;
    for (auto* node : runs_[i].nodes)
      collect_uses(node, used);
    if (last)
      for (auto* x : flat_.graph().outputs())
        outputs.push_back(x);
    else
      outputs = given_by(i);
    used.insert(used.end(), outputs.begin(), outputs.end());
    value_set takes{by_order{&order_}};
    std::set<jit::Value*> seen;
    for (auto* x : used)
      trace_back(x, i, takes, seen);
    layer_maker maker{whole_, flat_};
    split_layer out{runs_[i].name, {}, {}, {}};
    for (auto* x : takes) {
      out.takes.push_back(names_.at(x));
      // Names in a graph have to be identifiers.
      maker.take(x, "x" + std::to_string(out.takes.size()));
    }
    for (auto* node : runs_[i].nodes)
      maker.add(node);
    if (!last)
      for (auto* x : outputs) {
        auto number = out.gives.size();
        names_[x] = runs_[i].name
                    + (outputs.size() > 1 ? ":" + std::to_string(number) : "");
        out.gives.push_back(names_[x]);
      }
    out.module = maker.finish(outputs);
    return out;
  }

  const jit::Module& whole_;
  const flat_model& flat_;
  std::vector<run_of_nodes> runs_;
  std::map<const jit::Node*, size_t> run_of_;
  std::map<const jit::Value*, size_t> order_;
  std::map<const jit::Value*, std::string> names_;
  std::vector<value_set> crossings_; ///< before each group, and after the last
};

} // namespace

std::vector<split_layer> split_into_layers(const jit::Module& whole,
                                           size_t inputs, size_t depth,
                                           const std::vector<size_t>& firsts) {
  flat_model flat{whole, inputs};
  auto runs = runs_of(flat, depth);
  if (runs.empty())
    refuse_cut("it computes nothing");
  runs =
    put_together(splitter{whole, flat, std::move(runs)}.that_give(), firsts);
  make_unique_names(runs);
  return splitter{whole, flat, std::move(runs)}.split();
}

} // namespace millrace
