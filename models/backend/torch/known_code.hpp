// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <torch/script.h>

namespace millrace {

/// A cache of compiled code of layers: compilation takes most of a model's load
/// time if its weights are in memory already. Evicts the least recently used
/// entries. Any thread.
class known_code {
public:
  /// As open_archive, without parameters. The module is private to the caller;
  /// the compiled code may be shared.
  torch::jit::Module open(const void* file, uint64_t bytes, int trusted,
                          c10::Device on);

private:
  struct compiled {
    std::string key;
    torch::jit::Module module;
  };

  std::optional<torch::jit::Module> find(const std::string& key);
  void add(std::string key, torch::jit::Module module);

  std::mutex mutex_;
  std::list<compiled> all_; ///< guarded; most recently used first
  std::map<std::string_view, std::list<compiled>::iterator>
    by_key_;         ///< guarded
  size_t bytes_ = 0; ///< guarded
};

} // namespace millrace
