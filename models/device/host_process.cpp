// SPDX-License-Identifier: Apache-2.0
#include "models/device/host_process.hpp"

#include <algorithm>

namespace millrace {

/// The object that lives as long as the content is in the host's memory. A
/// content of the simulator has no weights file: then it is the bundle.
std::shared_ptr<const void>
host_process::memory_of(const content_pointer& content) {
  if (content->weights_file)
    return content->weights_file;
  return content;
}

host_process::layers& host_process::find(const content_pointer& content) {
  std::erase_if(contents_, [](auto& y) { return y.second.alive.expired(); });
  auto memory = memory_of(content);
  auto& out = contents_[memory.get()];
  out.alive = memory;
  return out.known;
}

std::vector<size_t> host_process::claim(const content_pointer& content,
                                        size_t first, size_t last, loader by) {
  std::lock_guard guard{mutex_};
  auto& known = find(content);
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

std::optional<timestamp> host_process::due(const content_pointer& content,
                                           size_t first, size_t last,
                                           loader by) {
  std::lock_guard guard{mutex_};
  std::optional<timestamp> out;
  for (auto& [layer, loader] : find(content))
    if (layer >= first && layer < last && loader != 0 && loader != by) {
      auto i = due_.find(loader);
      auto then = i == due_.end() ? timestamp{} : i->second;
      out = std::max(out.value_or(then), then);
    }
  return out;
}

} // namespace millrace
