// SPDX-License-Identifier: Apache-2.0

/// \file
/// The LibTorch backend, 1.13 to 2.x: the one file of the project that sees
/// LibTorch. Compiled as C++17 into a plugin; speaks only abi.h.

#include <torch/script.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <streambuf>

#include <ATen/Parallel.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/version.h>

#include "models/backend/abi.h"

struct millrace_stage {
  std::vector<torch::jit::Module> layers;
};

namespace {

/// In the order of millrace::dtype.
constexpr at::ScalarType scalar_types[] = {
  at::kBool, at::kByte, at::kChar,     at::kShort, at::kInt,
  at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};

int dtype_of(at::ScalarType x) {
  for (int i = 0; i < 10; ++i)
    if (scalar_types[i] == x)
      return i;
  throw std::runtime_error(std::string{"dtype "} + at::toString(x)
                           + " is not supported");
}

/// Reads code that lies in memory without copying it.
class memory_buffer : public std::streambuf {
public:
  memory_buffer(const void* data, uint64_t bytes) {
    auto* p = const_cast<char*>(static_cast<const char*>(data));
    setg(p, p, p + bytes);
  }

protected:
  pos_type seekoff(off_type off, std::ios_base::seekdir dir,
                   std::ios_base::openmode) override {
    auto* base = dir == std::ios_base::beg   ? eback()
                 : dir == std::ios_base::cur ? gptr()
                                             : egptr();
    if (base + off < eback() || base + off > egptr())
      return pos_type(off_type(-1));
    setg(eback(), base + off, egptr());
    return gptr() - eback();
  }
  pos_type seekpos(pos_type at, std::ios_base::openmode which) override {
    return seekoff(at, std::ios_base::beg, which);
  }
};

/// The one line of an error that says why: the last of a TorchScript
/// traceback, else the first.
std::string cause(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.pop_back();
  if (text.find("Traceback of TorchScript") != std::string::npos)
    return text.substr(text.rfind('\n') + 1);
  return text.substr(0, text.find('\n'));
}

template <class F>
int guarded(millrace_error* failed, F f) {
  try {
    f();
    return 0;
  } catch (const c10::Error& e) {
    std::snprintf(failed->text, sizeof failed->text, "%s",
                  cause(e.what_without_backtrace()).c_str());
  } catch (const std::exception& e) {
    std::snprintf(failed->text, sizeof failed->text, "%s",
                  cause(e.what()).c_str());
  } catch (...) {
    std::snprintf(failed->text, sizeof failed->text,
                  "an exception of unknown type");
  }
  return 1;
}

at::Tensor borrow(const millrace_tensor& x) {
  auto sizes = at::IntArrayRef(x.extents, static_cast<size_t>(x.rank));
  auto options = at::TensorOptions().dtype(scalar_types[x.dtype]);
  if (x.bytes == 0)
    return at::empty(sizes, options);
  return at::from_blob(const_cast<void*>(x.data), sizes, options);
}

void describe(const at::Tensor& x, millrace_tensor& out) {
  if (x.dim() > MILLRACE_MAX_RANK)
    throw std::runtime_error("a tensor of more than 8 dimensions");
  out.dtype = dtype_of(x.scalar_type());
  out.rank = static_cast<int32_t>(x.dim());
  std::copy(x.sizes().begin(), x.sizes().end(), out.extents);
  out.data = x.data_ptr();
  out.bytes = x.nbytes();
}

void hand_over(const at::Tensor& y, millrace_tensor& out) {
  auto x = y.to(at::kCPU).contiguous();
  describe(x, out);
  out.owner = new at::Tensor(x);
  out.release = [](void* p) { delete static_cast<at::Tensor*>(p); };
}

/// The tensors in a result: one, a tuple or list of them, or a dictionary's
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

/// Calls f(name, tensor slot) for every parameter and buffer.
template <class F>
void for_each_parameter(torch::jit::Module& m, F f) {
  for (const auto& x : m.named_parameters())
    f(x.name, x.value);
  for (const auto& x : m.named_buffers())
    f(x.name, x.value);
}

void attach(torch::jit::Module& m, const millrace_layer& layer) {
  std::map<std::string, const millrace_tensor*> given;
  for (uint64_t i = 0; i < layer.parameter_count; ++i)
    given.emplace(layer.parameters[i].name, &layer.parameters[i].value);
  for_each_parameter(m, [&](const std::string& name, at::Tensor slot) {
    auto i = given.find(name);
    if (i == given.end())
      throw std::runtime_error("no parameter '" + name + "' in the weights");
    slot.set_data(borrow(*i->second));
    given.erase(i);
  });
  if (!given.empty())
    throw std::runtime_error("the code has no parameter '"
                             + given.begin()->first + "'");
}

/// LibTorch would take other formats, too: the lite interpreter's is read
/// without a check of its offsets.
void check_archive(const void* file, uint64_t bytes) {
  constexpr char magic[] = {'P', 'K', 3, 4};
  if (bytes < sizeof magic || std::memcmp(file, magic, sizeof magic) != 0)
    C10_THROW_ERROR(ValueError, "not an archive (expected a zip file's start)");
}

/// Whether a file of an archive is one of its sources. LibTorch finds them by
/// name whatever the case of their letters is.
bool is_source(std::string name) {
  constexpr char ending[] = ".py";
  constexpr size_t n = sizeof ending - 1;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return name.size() > n && name.compare(name.size() - n, n, ending) == 0;
}

/// The sources in an archive, by their files' names.
std::map<std::string, std::string> sources_in(const void* file,
                                              uint64_t bytes) {
  memory_buffer buffer{file, bytes};
  std::istream in{&buffer};
  caffe2::serialize::PyTorchStreamReader archive{&in};
  if (archive.hasRecord("model.json"))
    throw std::runtime_error("is of a format before PyTorch 1.4, in which code"
                             " lies anywhere; expected what torch.jit.save"
                             " writes since");
  std::map<std::string, std::string> out;
  for (auto& name : archive.getAllRecords())
    if (is_source(name)) {
      auto [data, size] = archive.getRecord(name);
      out.emplace(name,
                  std::string{static_cast<const char*>(data.get()), size});
    }
  return out;
}

/// Whether some operator, at any depth of branches, is such a one.
bool any_node(const torch::jit::Block* block,
              bool (*is_such)(const torch::jit::Node&)) {
  for (auto* node : block->nodes()) {
    if (is_such(*node))
      return true;
    for (auto* inner : node->blocks())
      if (any_node(inner, is_such))
        return true;
  }
  return false;
}

/// What code that nobody vouches for may not call: operators that open files.
[[noreturn]] void refuse_call(const std::string& what) {
  throw std::runtime_error(
    "its code " + what
    + "; expected code that only computes, or that its model is marked as"
      " trusted");
}

/// Looks for such calls in a source: torch.save(...), ops.aten.from_file(...),
/// and for whatever would give these places another name. TorchScript's own
/// lexer sees through what stands between the words.
void check_source(const std::string& file, const std::string& source) {
  static const std::set<std::string> calls{"from_file", "save"};
  torch::jit::Lexer lexer{std::make_shared<torch::jit::Source>(source)};
  std::string place; // that the next words belong to
  std::string last;
  while (lexer.cur().kind != torch::jit::TK_EOF) {
    auto text = lexer.next().text();
    if (last == "." && !place.empty()) {
      if (calls.count(text) != 0)
        refuse_call("(" + file + ") calls " + place + "." + text
                    + ", which opens files");
      place = place == "ops" && text == "aten" ? "aten" : "";
    } else if (!place.empty() && text != ".") {
      refuse_call("(" + file + ") has another name for '" + place + "'");
    } else if (last != "." && (text == "torch" || text == "ops")) {
      place = text;
    }
    last = std::move(text);
  }
}

bool opens_files(const torch::jit::Node& x) {
  std::string kind = x.kind().toQualString();
  return kind == "aten::from_file" || kind == "aten::save";
}

/// The same in what the sources were compiled to.
void check_graphs(const torch::jit::Module& m) {
  for (auto* f : m._ivalue()->compilation_unit()->get_functions()) {
    f->ensure_defined();
    if (any_node(torch::jit::toGraphFunction(*f).graph()->block(), opens_files))
      refuse_call("(" + f->qualname().qualifiedName()
                  + ") calls an operator that opens files");
  }
}

torch::jit::Module open_archive(const void* file, uint64_t bytes, int trusted) {
  check_archive(file, bytes);
  if (trusted == 0)
    for (auto& [name, source] : sources_in(file, bytes))
      check_source(name, source);
  memory_buffer buffer{file, bytes};
  std::istream in{&buffer};
  auto out = torch::jit::load(in, at::kCPU);
  if (trusted == 0)
    check_graphs(out);
  return out;
}

// -- the interface ------------------------------------------------------------

const char* describe_backend() {
  return "LibTorch " TORCH_VERSION ", CPU";
}

void enter_thread(int threads) {
  at::init_num_threads();
  at::set_num_threads(threads);
}

int load(const millrace_layer* layers, uint64_t count, int trusted,
         millrace_stage** out, millrace_error* failed) {
  return guarded(failed, [&] {
    c10::InferenceMode inference;
    // The profiling executor makes the first calls 40 times slower and gains
    // nothing for models that are served as they were exported.
    torch::jit::setGraphExecutorOptimize(false);
    auto stage = std::make_unique<millrace_stage>();
    for (uint64_t i = 0; i < count; ++i) {
      auto m = open_archive(layers[i].code, layers[i].code_bytes, trusted);
      m.eval();
      attach(m, layers[i]);
      stage->layers.push_back(std::move(m));
    }
    *out = stage.release();
  });
}

void unload(millrace_stage* stage) {
  delete stage;
}

/// Calls within calls that are looked into; deeper ones count as if they read
/// values.
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
  for (auto& m : stage->layers) {
    auto graph = m.get_method("forward").graph()->copy();
    // A pass inlines one level of calls where graphs are not optimised.
    for (int level = 0; level < max_calls && any_node(graph->block(), is_call);
         ++level)
      torch::jit::Inline(*graph);
    if (any_node(graph->block(), reads_values))
      return 1;
  }
  return 0;
}

int run(millrace_stage* stage, const millrace_tensor* inputs,
        uint32_t input_count, millrace_tensor* outputs,
        uint32_t output_capacity, uint32_t* output_count,
        millrace_error* failed) {
  return guarded(failed, [&] {
    c10::InferenceMode inference;
    torch::jit::setGraphExecutorOptimize(false);
    std::vector<at::Tensor> xs;
    for (uint32_t i = 0; i < input_count; ++i)
      xs.push_back(borrow(inputs[i]));
    for (auto& m : stage->layers) {
      std::vector<c10::IValue> arguments{xs.begin(), xs.end()};
      auto y = m.forward(std::move(arguments));
      xs.clear();
      flatten(y, xs);
    }
    if (xs.size() > output_capacity)
      throw std::runtime_error("the model returned more tensors than fit");
    uint32_t n = 0;
    for (auto& x : xs)
      hand_over(x, outputs[n++]);
    *output_count = n;
  });
}

/// What f reads of somebody's file.
template <class F>
auto read_script(F f) {
  try {
    return f();
  } catch (const c10::Error& e) {
    throw std::runtime_error(
      "is not a TorchScript file; expected what torch.jit.script(module) or"
      " torch.jit.trace saves, not a state_dict or a pickled module: "
      + cause(e.what_without_backtrace()));
  }
}

int take_apart(const void* file, uint64_t bytes, int trusted,
               const millrace_import_sink* sink, millrace_error* failed) {
  return guarded(failed, [&] {
    auto m = read_script([&] { return open_archive(file, bytes, trusted); });
    m.eval();
    auto schema = m.get_method("forward").function().getSchema();
    for (size_t i = 1; i < schema.arguments().size(); ++i) {
      auto& x = schema.arguments()[i];
      sink->input(sink->self, x.name().c_str(), x.type()->str().c_str());
    }
    for_each_parameter(m, [&](const std::string& name, at::Tensor slot) {
      auto whole = slot.detach().contiguous();
      millrace_parameter x{name.c_str(), {}};
      describe(whole, x.value);
      sink->parameter(sink->self, &x);
      // One element stretched over the shape: the code keeps what it needs to
      // know of the parameter without its bytes.
      slot.set_data(slot.dim() == 0
                      ? at::zeros({}, slot.options())
                      : at::zeros({1}, slot.options()).expand(slot.sizes()));
    });
    std::ostringstream code;
    m.save(code);
    auto text = code.str();
    sink->code(sink->self, text.data(), text.size());
  });
}

constexpr millrace_backend backend{
  MILLRACE_BACKEND_ABI, describe_backend, enter_thread, load, unload, run,
  depends_on_values,    take_apart,
};

} // namespace

extern "C" __attribute__((visibility("default"))) const millrace_backend*
millrace_backend_v1() {
  return &backend;
}
