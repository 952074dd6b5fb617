// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/archive.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <set>
#include <streambuf>

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/frontend/lexer.h>

namespace millrace {

namespace {

/// Reads code in memory without copying it.
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

/// LibTorch would accept other formats, too: it reads the lite interpreter's
/// without a check of its offsets.
void check_archive(const void* file, uint64_t bytes) {
  constexpr char magic[] = {'P', 'K', 3, 4};
  if (bytes < sizeof magic || std::memcmp(file, magic, sizeof magic) != 0)
    C10_THROW_ERROR(ValueError, "not an archive (expected a zip file's start)");
}

/// Whether a file of an archive is a source. LibTorch finds sources by name, in
/// any letter case.
bool is_source(std::string name) {
  constexpr char ending[] = ".py";
  constexpr size_t n = sizeof ending - 1;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return name.size() > n && name.compare(name.size() - n, n, ending) == 0;
}

/// The sources in an archive, by file name.
std::map<std::string, std::string> sources_in(const void* file,
                                              uint64_t bytes) {
  memory_buffer buffer{file, bytes};
  std::istream in{&buffer};
  caffe2::serialize::PyTorchStreamReader archive{&in};
  if (archive.hasRecord("model.json"))
    throw std::runtime_error("is of a format before PyTorch 1.4, which has no"
                             " fixed place for code; expected a file that a"
                             " later torch.jit.save wrote");
  std::map<std::string, std::string> out;
  for (auto& name : archive.getAllRecords())
    if (is_source(name)) {
      auto [data, size] = archive.getRecord(name);
      out.emplace(name,
                  std::string{static_cast<const char*>(data.get()), size});
    }
  return out;
}

/// Refuses untrusted code that calls operators that open files.
[[noreturn]] void refuse_call(const std::string& what) {
  throw std::runtime_error(
    "its code " + what
    + "; expected code that only computes, or that its model is marked as"
      " trusted");
}

/// Searches a source for such calls: torch.save(...), ops.aten.from_file(...),
/// and for other names given to `torch` or `ops.aten`. TorchScript's own lexer
/// skips white space and comments between the tokens.
void check_source(const std::string& file, const std::string& source) {
  static const std::set<std::string> calls{"from_file", "save"};
  torch::jit::Lexer lexer{std::make_shared<torch::jit::Source>(source)};
  std::string place; // the namespace that the next token belongs to
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

/// Calls f(function, its graph's block) for all compiled functions of a module.
template <class F>
void for_each_function(const torch::jit::Module& m, F f) {
  for (auto* x : m._ivalue()->compilation_unit()->get_functions()) {
    x->ensure_defined();
    f(*x, torch::jit::toGraphFunction(*x).graph()->block());
  }
}

/// Searches the compiled code for such calls.
void check_graphs(const torch::jit::Module& m) {
  for_each_function(m, [](auto& f, auto* block) {
    if (any_node(block, opens_files))
      refuse_call("(" + f.qualname().qualifiedName()
                  + ") calls an operator that opens files");
  });
}

void move_constants(torch::jit::Block* block, const std::string& to) {
  for (auto* x : block->nodes()) {
    for (auto* inner : x->blocks())
      move_constants(inner, to);
    if (x->kind() == c10::prim::Constant && x->hasAttribute(c10::attr::value)
        && x->output()->type()->kind() == c10::TypeKind::DeviceObjType
        && x->s(c10::attr::value) == "cpu")
      x->s_(c10::attr::value, to);
  }
}

/// Replaces the constant "cpu" in the code by that device.
void move_code(const torch::jit::Module& m, const std::string& to) {
  for_each_function(m, [&](auto&, auto* block) { move_constants(block, to); });
}

} // namespace

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

bool any_node(const torch::jit::Module& m,
              bool (*is_such)(const torch::jit::Node&)) {
  auto found = false;
  for_each_function(
    m, [&](auto&, auto* block) { found = found || any_node(block, is_such); });
  return found;
}

torch::jit::Module open_archive(const void* file, uint64_t bytes, int trusted,
                                c10::Device on) {
  check_archive(file, bytes);
  if (trusted == 0)
    for (auto& [name, source] : sources_in(file, bytes))
      check_source(name, source);
  memory_buffer buffer{file, bytes};
  std::istream in{&buffer};
  auto out = torch::jit::load(in, on);
  if (trusted == 0)
    check_graphs(out);
  if (!on.is_cpu())
    move_code(out, on.str());
  return out;
}

} // namespace millrace
