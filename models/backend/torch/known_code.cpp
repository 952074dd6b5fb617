// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/known_code.hpp"

#include <unordered_map>

#include "models/backend/torch/archive.hpp"

namespace millrace {

namespace {

using object = c10::ivalue::Object;
using object_ptr = c10::intrusive_ptr<object>;

/// Of archives; compiled code takes about twenty times as much.
constexpr size_t most_bytes = 1u << 20;

/// A constant tensor in the code, which a pass could write to.
bool is_tensor_constant(const torch::jit::Node& x) {
  if (x.kind() != c10::prim::Constant || !x.hasAttribute(c10::attr::value))
    return false;
  auto kind = x.kindOf(c10::attr::value);
  return kind == torch::jit::AttributeKind::t
         || kind == torch::jit::AttributeKind::ts
         || kind == torch::jit::AttributeKind::ival;
}

/// Copies a module, with the same code. References to one object stay
/// references to one object.
class copier {
public:
  /// Nothing, if the module has an attribute that cannot be copied.
  std::optional<torch::jit::Module> copy(const torch::jit::Module& x) {
    try {
      auto out = copy_of(x._ivalue());
      return fails_ ? std::nullopt : std::optional<torch::jit::Module>{out};
    } catch (const c10::Error&) { // a list of such attributes
      return std::nullopt;
    }
  }

private:
  object_ptr copy_of(const object_ptr& x) {
    auto& out = objects_[x.get()];
    if (out)
      return out;
    auto type = x->type();
    auto made = object::create(c10::StrongTypePtr{x->compilation_unit(), type},
                               type->numAttributes());
    out = made;
    for (size_t i = 0; i < type->numAttributes(); ++i) {
      auto comes = type->is_parameter(i) || type->is_buffer(i);
      made->setSlot(i, copy_of(x->getSlot(i), comes));
    }
    return made;
  }

  /// Parameters and buffers are empty until attached.
  c10::IValue copy_of(const c10::IValue& x, bool comes) {
    if (x.isObject() && x.type()->is_module())
      return copy_of(x.toObject());
    if (x.isTensor()) {
      auto& from = x.toTensor();
      auto& to = tensors_[from.unsafeGetTensorImpl()];
      if (from.defined() && !to.defined())
        to = comes ? at::empty({0}, from.options()) : from.clone();
      return to;
    }
    fails_ = fails_ || x.isObject() || x.isCapsule() || x.isPyObject();
    return fails_ ? x : x.deepcopy();
  }

  std::unordered_map<const object*, object_ptr> objects_;
  std::unordered_map<const void*, at::Tensor> tensors_;
  bool fails_ = false;
};

} // namespace

torch::jit::Module known_code::open(const void* file, uint64_t bytes,
                                    int trusted, c10::Device on) {
  std::string key{static_cast<const char*>(file), bytes};
  key += trusted != 0 ? "1 " : "0 ";
  key += on.str();
  if (auto before = find(key))
    return *copier{}.copy(*before);
  auto out = open_archive(file, bytes, trusted, on);
  out.eval();
  if (!any_node(out, is_tensor_constant))
    if (auto kept = copier{}.copy(out))
      add(std::move(key), std::move(*kept));
  return out;
}

std::optional<torch::jit::Module> known_code::find(const std::string& key) {
  std::lock_guard guard{mutex_};
  auto i = by_key_.find(key);
  if (i == by_key_.end())
    return std::nullopt;
  all_.splice(all_.begin(), all_, i->second);
  return i->second->module;
}

void known_code::add(std::string key, torch::jit::Module module) {
  std::lock_guard guard{mutex_};
  if (by_key_.count(key) != 0) // another thread has compiled it meanwhile
    return;
  bytes_ += key.size();
  all_.push_front({std::move(key), std::move(module)});
  by_key_[all_.front().key] = all_.begin();
  while (bytes_ > most_bytes) {
    bytes_ -= all_.back().key.size();
    by_key_.erase(all_.back().key);
    all_.pop_back();
  }
}

} // namespace millrace
