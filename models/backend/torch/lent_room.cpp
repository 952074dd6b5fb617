// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/lent_room.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include <c10/core/CPUAllocator.h>

namespace millrace {

namespace {

/// Upper limit of the input shapes that are remembered.
constexpr size_t most_shapes = 256;

constexpr size_t alignment = 64; // LibTorch's alignment

thread_local lent_room* current = nullptr;

/// The blocks in lent memory that are not freed yet. Few: a pass has one per
/// output.
class placed_blocks {
public:
  void add(void* x) {
    std::lock_guard guard{mutex_};
    all_.insert(x);
  }
  bool remove(void* x) {
    std::lock_guard guard{mutex_};
    return all_.erase(x) != 0;
  }
  bool has(void* x) {
    std::lock_guard guard{mutex_};
    return all_.count(x) != 0;
  }

private:
  std::mutex mutex_;
  std::set<void*> all_;
};

placed_blocks& placed() {
  static auto* all = new placed_blocks; // tensors may outlive static objects
  return *all;
}

c10::Allocator* ordinary = nullptr;

void release(void* x) {
  if (x != nullptr && !placed().remove(x))
    ordinary->raw_deallocate(x);
}

/// LibTorch's own allocator, except for allocations that a thread's lent room
/// takes. Virtual and const functions differ between 1.13 and 2.x, so none here
/// can be marked `override`.
/// https://pytorch.org/cppdocs/ , c10::Allocator
class placing_allocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t n) const { return make(n); }
  c10::DataPtr allocate(size_t n) { return make(n); }
  c10::DeleterFnPtr raw_deleter() const { return &release; }
  void copy_data(void* to, const void* from, size_t n) const {
    std::memcpy(to, from, n);
  }

private:
  static c10::DataPtr make(size_t n) {
    if (current == nullptr)
      return ordinary->allocate(n);
    if (auto* x = current->place(n)) {
      placed().add(x);
      current->made(x);
      return {x, x, &release, c10::Device{c10::DeviceType::CPU}};
    }
    auto out = ordinary->allocate(n);
    current->made(out.get());
    return out;
  }
};

} // namespace

std::vector<uint32_t> output_places::find(const shapes& of) const {
  std::lock_guard guard{mutex_};
  auto i = known_.find(of);
  return i == known_.end() ? std::vector<uint32_t>{} : i->second;
}

void output_places::learn(const shapes& of, std::vector<uint32_t> places) {
  std::lock_guard guard{mutex_};
  if (given_up_)
    return;
  if (known_.size() >= most_shapes && known_.count(of) == 0)
    known_.clear();
  known_[of] = std::move(places);
}

void output_places::give_up() {
  std::lock_guard guard{mutex_};
  given_up_ = true;
  known_.clear();
}

lent_room::lent_room(output_places& places, output_places::shapes inputs,
                     millrace_room& room)
  : places_(places),
    inputs_(std::move(inputs)),
    room_(room),
    wanted_(places.find(inputs_)) {
  room_.used = 0;
  room_.kept = 0;
  current = this;
}

lent_room::~lent_room() {
  current = nullptr;
  auto kept = [](void* x) { return placed().has(x); };
  if (std::any_of(placed_.begin(), placed_.end(), kept)) {
    room_.kept = 1;
    places_.give_up();
  }
}

void* lent_room::place(size_t bytes) {
  if (next_ == wanted_.size() || wanted_[next_] != made_.size())
    return nullptr;
  ++next_;
  auto free = (room_.bytes - room_.used) / alignment * alignment;
  if (bytes == 0 || bytes > free)
    return nullptr;
  auto* out = static_cast<char*>(room_.begin) + room_.used;
  room_.used += (bytes + alignment - 1) / alignment * alignment;
  placed_.push_back(out);
  return out;
}

void lent_room::learn(const std::vector<at::Tensor>& outputs) {
  std::vector<uint32_t> found;
  for (auto& x : outputs) {
    // An address may occur twice if a block was freed meanwhile.
    auto last =
      std::find(made_.rbegin(), made_.rend(), x.storage().data_ptr().get());
    if (last != made_.rend() && *last != nullptr)
      found.push_back(static_cast<uint32_t>(made_.rend() - last - 1));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (found != wanted_)
    places_.learn(inputs_, std::move(found));
}

bool lent_room::holds(const at::Tensor& value) const {
  auto* data = value.storage().data_ptr().get();
  return std::find(placed_.begin(), placed_.end(), data) != placed_.end();
}

void install_lent_rooms() {
  ordinary = c10::GetCPUAllocator();
  // Owned by LibTorch from now on.
  static auto* allocator = new placing_allocator;
  c10::SetCPUAllocator(allocator);
}

} // namespace millrace
