// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/take_apart.hpp"

#include <sstream>

#include <torch/version.h>

#include "models/backend/torch/archive.hpp"
#include "models/backend/torch/layer_splitter.hpp"
#include "models/backend/torch/plugin_calls.hpp"
#include "models/backend/torch/row_coupling.hpp"

namespace millrace {

namespace {

/// Calls f, which parses a model file, and translates errors of LibTorch.
template <class F>
auto read_script(F f) {
  try {
    return f();
  } catch (const std::exception& e) {
    std::string text = e.what();
    if (text.find("Unknown builtin op") != std::string::npos)
      throw std::runtime_error(
        "was made by a newer PyTorch: LibTorch " TORCH_VERSION
        " does not have one of its operators ("
        + cause(text) + ")");
    auto* other = dynamic_cast<const c10::Error*>(&e);
    if (other == nullptr)
      throw;
    throw std::runtime_error(
      "is not a TorchScript file; expected what torch.jit.script(module) or"
      " torch.jit.trace saves, not a state_dict or a pickled module: "
      + cause(other->what_without_backtrace()));
  }
}

/// Passes on a layer's parameters and its code without them. Tied parameters
/// are one tensor, so none is changed before all were passed on.
void hand_on(torch::jit::Module& m, const millrace_import_sink& sink) {
  for_each_parameter(m, [&](const std::string& name, const at::Tensor& slot) {
    auto whole = slot.detach().contiguous();
    millrace_parameter x{name.c_str(), {}};
    describe(whole, x.value);
    sink.parameter(sink.self, &x);
  });
  for_each_parameter(m, [&](const std::string&, at::Tensor slot) {
    // One element expanded to the shape: the code keeps the parameter's
    // properties without its bytes.
    slot.set_data(slot.dim() == 0
                    ? at::zeros({}, slot.options())
                    : at::zeros({1}, slot.options()).expand(slot.sizes()));
  });
  std::ostringstream code;
  m.save(code);
  auto text = code.str();
  sink.code(sink.self, text.data(), text.size());
}

std::vector<const char*> pointers_to(const std::vector<std::string>& xs) {
  std::vector<const char*> out;
  for (auto& x : xs)
    out.push_back(x.c_str());
  return out;
}

/// Reports the operators found. If the examination fails, import relies on
/// trial runs alone.
void report_findings(const torch::jit::Module& m,
                     const millrace_import_sink& sink) {
  try {
    auto found = examine_graph(m);
    for (auto& x : found.couples_rows)
      sink.finding(sink.self, millrace_couples_rows, x.c_str());
    for (auto& x : found.keeps_state)
      sink.finding(sink.self, millrace_keeps_state, x.c_str());
    for (auto& x : found.outputs)
      sink.finding(sink.self, millrace_output_name, x.c_str());
  } catch (const std::exception&) {
  }
}

} // namespace

int take_apart(const void* file, uint64_t bytes, int trusted,
               const millrace_split* split, const millrace_import_sink* sink,
               millrace_error* failed) {
  return guarded(failed, [&] {
    auto m = read_script([&] { return open_archive(file, bytes, trusted); });
    m.eval();
    auto schema = m.get_method("forward").function().getSchema();
    for (size_t i = 1; i < schema.arguments().size(); ++i) {
      auto& x = schema.arguments()[i];
      sink->input(sink->self, x.name().c_str(), x.type()->str().c_str());
    }
    if (split == nullptr) {
      report_findings(m, *sink);
      sink->layer(sink->self, "model", {}, {});
      return hand_on(m, *sink);
    }
    std::vector<size_t> firsts{split->firsts,
                               split->firsts + split->first_count};
    for (auto& x : split_into_layers(m, split->inputs, split->depth, firsts)) {
      auto takes = pointers_to(x.takes), gives = pointers_to(x.gives);
      sink->layer(sink->self, x.name.c_str(), {takes.data(), takes.size()},
                  {gives.data(), gives.size()});
      hand_on(x.module, *sink);
    }
  });
}

} // namespace millrace
