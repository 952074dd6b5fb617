// SPDX-License-Identifier: Apache-2.0

/// \file
/// The LibTorch backend, 1.13 to 2.x. Only this folder uses LibTorch; it is
/// compiled as C++17 into a plugin with the interface abi.h.

#include <torch/script.h>

#include <sys/random.h>

#include <cctype>
#include <cstdio>
#include <mutex>
#include <optional>
#include <set>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/version.h>

#include "models/backend/abi.h"
#include "models/backend/torch/archive.hpp"
#include "models/backend/torch/gpu_passes.hpp"
#include "models/backend/torch/known_code.hpp"
#include "models/backend/torch/lent_room.hpp"
#include "models/backend/torch/memory_meter.hpp"
#include "models/backend/torch/plugin_calls.hpp"
#include "models/backend/torch/row_coupling.hpp"
#include "models/backend/torch/take_apart.hpp"

struct millrace_stage {
  struct layer {
    torch::jit::Module module;
    bool takes_all = false;
    std::vector<uint32_t> takes, gives;
    std::vector<uint32_t> done; ///< values without a later use
    size_t first_parameter = 0, last_parameter = 0; ///< one past the last
  };
  std::vector<layer> layers;
  std::vector<uint32_t> gives; ///< empty: the outputs of the last layer
  size_t values = 0;
  /// Layers with code that writes to parameters, which then need a writable
  /// copy: parameters may be mapped read-only.
  std::vector<size_t> writing;
  std::once_flag copied;
  millrace::output_places places;
  std::unique_ptr<millrace::gpu_passes> gpu; ///< null: on the host's processors
};

namespace {

using millrace::any_node;
using millrace::describe;
using millrace::extents_of;
using millrace::for_each_parameter;
using millrace::guarded;
using millrace::shapes_of;

at::Tensor borrow(const millrace_tensor& x) {
  auto options = at::TensorOptions().dtype(millrace::scalar_types[x.dtype]);
  if (x.bytes == 0)
    return at::empty(extents_of(x), options);
  return at::from_blob(const_cast<void*>(x.data), extents_of(x), options);
}

void hand_over(const at::Tensor& x, millrace_tensor& out) {
  out.owner = new at::Tensor(x);
  out.release = [](void* p) { delete static_cast<at::Tensor*>(p); };
}

/// The tensors in a result: one, a tuple or list of several, or a dictionary's
/// values in its order.
void flatten(const c10::IValue& x, std::vector<at::Tensor>& out) {
  if (x.isTensor()) {
    out.push_back(x.toTensor());
  } else if (x.isTuple()) {
    for (auto& y : x.toTupleRef().elements())
      flatten(y, out);
  } else if (x.isList()) {
    for (c10::IValue y : x.toList())
      flatten(y, out);
  } else if (x.isGenericDict()) {
    for (auto& entry : x.toGenericDict())
      flatten(entry.value(), out);
  } else {
    throw std::runtime_error("the model returned " + x.tagKind()
                             + ", expected tensors");
  }
}

/// Sets a layer's parameters, which are the next tensors of `next`.
void attach(torch::jit::Module& m, const millrace_layer& layer,
            std::vector<at::Tensor>::const_iterator& next) {
  std::map<std::string, at::Tensor> given;
  for (uint64_t i = 0; i < layer.parameter_count; ++i)
    given.emplace(layer.parameters[i].name, *next++);
  for_each_parameter(m, [&](const std::string& name, at::Tensor slot) {
    auto i = given.find(name);
    if (i == given.end())
      throw std::runtime_error("no parameter '" + name + "' in the weights");
    slot.set_data(i->second);
    given.erase(i);
  });
  if (!given.empty())
    throw std::runtime_error("the code has no parameter '"
                             + given.begin()->first + "'");
}

bool may_write(const torch::jit::Node& x) {
  std::string kind = x.kind().toQualString();
  return kind.back() == '_' || x.kind() == c10::prim::SetAttr;
}

/// Whether code writes to its parameters, which may be mapped read-only: then
/// it needs a copy.
bool writes_parameters(const torch::jit::Module& m) {
  try {
    return millrace::any_node(m, may_write)
           && millrace::examine_graph(m).writes_in_place;
  } catch (const std::exception&) {
    return false; // the graph cannot be examined
  }
}

/// The tensors of the parameters: in place, or on the stage's GPU.
std::vector<at::Tensor> place(const millrace_stage& stage,
                              const millrace_layer* layers, uint64_t count) {
  std::vector<const millrace_tensor*> all;
  for (auto* x = layers; x != layers + count; ++x)
    for (uint64_t i = 0; i < x->parameter_count; ++i)
      all.push_back(&x->parameters[i].value);
  if (stage.gpu)
    return stage.gpu->place(all);
  std::vector<at::Tensor> out;
  for (auto* x : all)
    out.push_back(borrow(*x));
  return out;
}

// -- the interface ------------------------------------------------------------

const char* describe_backend() {
  static const std::string out =
    std::string{"LibTorch " TORCH_VERSION}
    + (millrace::gpu_calls(nullptr, nullptr, nullptr) != nullptr ? ", CUDA"
                                                                 : ", CPU");
  return out.c_str();
}

void enter_thread(int threads) {
  at::init_num_threads();
  at::set_num_threads(threads);
}

/// Finds the last use of each value, so that it is freed afterwards.
void find_last_uses(millrace_stage& x) {
  std::set<uint32_t> needed{x.gives.begin(), x.gives.end()};
  for (auto i = x.layers.rbegin(); i != x.layers.rend(); ++i)
    for (auto* values : {&i->takes, &i->gives})
      for (auto v : *values) {
        x.values = std::max<size_t>(x.values, v + 1);
        if (needed.insert(v).second)
          i->done.push_back(v);
      }
}

/// Code that sets attributes of a module; a recording would not do so.
bool sets_attributes(const torch::jit::Node& x) {
  return x.kind() == c10::prim::SetAttr;
}

int depends_on_values(const millrace_stage* stage);

bool can_be_recorded(const millrace_stage& stage) {
  return depends_on_values(&stage) == 0
         && std::none_of(stage.layers.begin(), stage.layers.end(), [](auto& x) {
              auto methods = x.module.get_methods();
              return std::any_of(methods.begin(), methods.end(), [](auto& m) {
                return any_node(m.graph()->block(), sets_attributes);
              });
            });
}

/// The cache of all stages of this process. Never destroyed: LibTorch's static
/// objects, which it refers to, may be destroyed before.
millrace::known_code& compiled_before() {
  static auto* out = new millrace::known_code;
  return *out;
}

/// Seeds the random generator: processes forked from one template would
/// otherwise draw the same numbers.
void seed_generator() {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
    return;
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard guard{generator.mutex()};
  generator.set_current_seed(seed);
}

int load(const millrace_layer* layers, uint64_t count, const uint32_t* gives,
         uint64_t give_count, int trusted, const millrace_place* place_on,
         millrace_stage** out, millrace_error* failed) {
  auto body = [&] {
    c10::InferenceMode inference;
    // The profiling executor makes the first calls 40 times slower and gains
    // nothing for models that are served as exported.
    torch::jit::setGraphExecutorOptimize(false);
    seed_generator();
    auto stage = std::make_unique<millrace_stage>();
    if (place_on != nullptr)
      stage->gpu = std::make_unique<millrace::gpu_passes>(*place_on);
    auto parameters = place(*stage, layers, count);
    auto next = parameters.cbegin();
    auto number = [&] {
      return static_cast<size_t>(next - parameters.cbegin());
    };
    for (uint64_t i = 0; i < count; ++i) {
      auto m =
        compiled_before().open(layers[i].code, layers[i].code_bytes, trusted,
                               stage->gpu ? stage->gpu->device() : at::kCPU);
      auto first = number();
      attach(m, layers[i], next);
      auto& x = layers[i];
      if (place_on == nullptr && writes_parameters(m))
        stage->writing.push_back(i);
      stage->layers.push_back({std::move(m),
                               x.take_count == 0 && x.takes == nullptr,
                               {x.takes, x.takes + x.take_count},
                               {x.gives, x.gives + x.give_count},
                               {},
                               first,
                               number()});
    }
    stage->gives.assign(gives, gives + give_count);
    find_last_uses(*stage);
    if (stage->gpu && can_be_recorded(*stage))
      stage->gpu->record();
    *out = stage.release();
  };
  return place_on != nullptr ? guarded(failed, body, millrace::gpu_failure_kind)
                             : guarded(failed, body);
}

void unload(millrace_stage* stage) {
  delete stage;
}

/// Depth of calls that are examined; deeper calls count as reading values.
constexpr int max_calls = 32;

bool is_call(const torch::jit::Node& x) {
  return x.kind() == c10::prim::CallMethod
         || x.kind() == c10::prim::CallFunction;
}

/// Operators that loop, make numbers of a tensor's elements, or take extents
/// from them.
bool reads_values(const torch::jit::Node& x) {
  static const std::set<std::string> kinds{"prim::Loop",
                                           "prim::tolist",
                                           "prim::fork",
                                           "aten::item",
                                           "aten::Int",
                                           "aten::Float",
                                           "aten::Bool",
                                           "aten::IntImplicit",
                                           "aten::FloatImplicit",
                                           "aten::ScalarImplicit",
                                           "aten::ComplexImplicit",
                                           "aten::nonzero",
                                           "aten::nonzero_numpy",
                                           "aten::masked_select",
                                           "aten::bincount",
                                           "aten::one_hot",
                                           "aten::repeat_interleave",
                                           "aten::_local_scalar_dense"};
  return is_call(x) || kinds.count(x.kind().toQualString()) != 0;
}

int depends_on_values(const millrace_stage* stage) {
  for (auto& layer : stage->layers) {
    auto graph = layer.module.get_method("forward").graph()->copy();
    // A pass inlines one level of calls where graphs are not optimised.
    for (int level = 0; level < max_calls && any_node(graph->block(), is_call);
         ++level)
      torch::jit::Inline(*graph);
    if (any_node(graph->block(), reads_values))
      return 1;
  }
  return 0;
}

/// Copies parameters that code writes to. Not before the first pass: their
/// bytes may arrive after the load.
void copy_written(millrace_stage& stage) {
  for (auto i : stage.writing)
    for_each_parameter(
      stage.layers[i].module,
      [](const std::string&, at::Tensor slot) { slot.set_data(slot.clone()); });
}

/// One pass; returns dense outputs, and frees all other tensors.
std::vector<at::Tensor> pass(millrace_stage& stage,
                             const std::vector<at::Tensor>& given) {
  std::call_once(stage.copied, [&] { copy_written(stage); });
  std::vector<at::Tensor> xs;
  auto values = given;
  values.resize(std::max(values.size(), stage.values));
  for (auto& layer : stage.layers) {
    std::vector<c10::IValue> arguments{given.begin(), given.end()};
    if (!layer.takes_all) {
      arguments.clear();
      for (auto i : layer.takes)
        arguments.emplace_back(values[i]);
    }
    if (stage.gpu)
      stage.gpu->await(layer.first_parameter, layer.last_parameter);
    auto y = layer.module.forward(std::move(arguments));
    xs.clear();
    flatten(y, xs);
    if (xs.size() < layer.gives.size())
      throw std::runtime_error("a layer returned fewer tensors than it gives");
    for (size_t i = 0; i < layer.gives.size(); ++i)
      values[layer.gives[i]] = xs[i];
    for (auto i : layer.done)
      values[i].reset();
  }
  if (!stage.gives.empty()) {
    xs.clear();
    for (auto i : stage.gives)
      xs.push_back(values[i]);
  }
  auto where = stage.gpu ? stage.gpu->device() : c10::Device{at::kCPU};
  for (auto& x : xs)
    x = x.to(where).resolve_conj().resolve_neg().contiguous();
  return xs;
}

int run_on_host(millrace_stage* stage, const millrace_tensor* inputs,
                uint32_t input_count, millrace_room* room,
                millrace_tensor* outputs, uint32_t output_capacity,
                uint32_t* output_count, uint64_t* peak,
                millrace_error* failed) {
  std::optional<millrace::lent_room> lent;
  if (room != nullptr)
    lent.emplace(stage->places, shapes_of(inputs, input_count), *room);
  return guarded(failed, [&] {
    c10::InferenceMode inference;
    std::optional<millrace::memory_meter> meter;
    if (peak != nullptr)
      meter.emplace();
    torch::jit::setGraphExecutorOptimize(false);
    std::vector<at::Tensor> given;
    for (uint32_t i = 0; i < input_count; ++i)
      given.push_back(borrow(inputs[i]));
    auto xs = pass(*stage, given);
    if (xs.size() > output_capacity)
      throw std::runtime_error("the model returned more tensors than fit");
    for (size_t i = 0; i < xs.size(); ++i)
      describe(xs[i], outputs[i]);
    for (size_t i = 0; i < xs.size(); ++i)
      if (!lent || !lent->holds(xs[i]))
        hand_over(xs[i], outputs[i]);
    *output_count = static_cast<uint32_t>(xs.size());
    if (lent)
      lent->learn(xs);
    if (meter)
      *peak = meter->peak();
  });
}

int run(millrace_stage* stage, const millrace_tensor* inputs,
        uint32_t input_count, millrace_room* room, millrace_tensor* outputs,
        uint32_t output_capacity, uint32_t* output_count, uint64_t* peak,
        millrace_error* failed) {
  if (!stage->gpu)
    return run_on_host(stage, inputs, input_count, room, outputs,
                       output_capacity, output_count, peak, failed);
  auto body = [&] {
    c10::InferenceMode inference;
    std::optional<millrace::memory_meter> meter;
    if (peak != nullptr)
      meter.emplace();
    torch::jit::setGraphExecutorOptimize(false);
    millrace::gpu_passes::forward how = [&](auto& given) {
      return pass(*stage, given);
    };
    stage->gpu->run({inputs, input_count, how, peak != nullptr, room, outputs,
                     output_capacity, output_count});
    if (meter)
      *peak = meter->peak();
  };
  return guarded(failed, body, millrace::gpu_failure_kind);
}

int arrive(millrace_stage* stage, const void* begin, uint64_t bytes,
           millrace_error* failed) {
  return guarded(
    failed, [&] { stage->gpu->arrive(static_cast<const char*>(begin), bytes); },
    millrace::gpu_failure_kind);
}

void give_up(millrace_stage* stage) {
  stage->gpu->give_up();
}

uint64_t memory_of(const millrace_stage* stage) {
  return stage->gpu->memory();
}

const millrace_backend backend{
  MILLRACE_BACKEND_ABI,
  describe_backend,
  enter_thread,
  load,
  unload,
  run,
  depends_on_values,
  millrace::take_apart,
  millrace::gpu_calls(arrive, give_up, memory_of),
};

} // namespace

extern "C" __attribute__((visibility("default"))) const millrace_backend*
millrace_backend_v1() {
  millrace::install_lent_rooms();
  // Reads /dev/urandom now, which confined processes cannot open.
  at::detail::getDefaultCPUGenerator();
  return &backend;
}
