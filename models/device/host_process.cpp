// SPDX-License-Identifier: Apache-2.0
#include "models/device/host_process.hpp"

#include <algorithm>

namespace millrace {

/// What lives as long as the content is in the host's memory. One without
/// weights, in the simulator, has none: it lives as long as its replicas.
std::shared_ptr<const void> host_process::memory_of(const content_pointer& x) {
  if (x->weights_file)
    return x->weights_file;
  return x;
}

host_process::layers& host_process::find(const content_pointer& x) {
  std::erase_if(contents_, [](auto& y) { return y.second.alive.expired(); });
  auto memory = memory_of(x);
  auto& out = contents_[memory.get()];
  out.alive = memory;
  return out.known;
}

std::vector<size_t> host_process::claim(const content_pointer& x, size_t first,
                                        size_t last, loader by) {
  std::lock_guard guard{mutex_};
  auto& known = find(x);
  std::vector<size_t> out;
  for (auto i = first; i < last; ++i)
    if (known.try_emplace(i, by).second)
      out.push_back(i);
  return out;
}

void host_process::expect(loader by, timestamp due) {
  std::lock_guard guard{mutex_};
  due_[by] = due;
}

void host_process::attached(loader by) {
  std::lock_guard guard{mutex_};
  due_.erase(by);
  for (auto& [key, x] : contents_)
    for (auto& [layer, loader] : x.known)
      if (loader == by)
        loader = 0;
}

void host_process::give_up(loader by) {
  std::lock_guard guard{mutex_};
  due_.erase(by);
  for (auto& [key, x] : contents_)
    std::erase_if(x.known, [&](auto& y) { return y.second == by; });
}

std::optional<timestamp> host_process::due(const content_pointer& x,
                                           size_t first, size_t last,
                                           loader by) {
  std::lock_guard guard{mutex_};
  std::optional<timestamp> out;
  for (auto& [layer, loader] : find(x))
    if (layer >= first && layer < last && loader != 0 && loader != by) {
      auto i = due_.find(loader);
      auto then = i == due_.end() ? timestamp{} : i->second;
      out = std::max(out.value_or(then), then);
    }
  return out;
}

} // namespace millrace
