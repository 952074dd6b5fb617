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

/// Layers' code as it was compiled before: to compile it takes most of the time
/// that a model's load takes where its weights are in memory already. Keeps
/// what was used last. Any thread.
class known_code {
public:
  /// As open_archive, with no parameters in their places yet, for the caller
  /// alone; what is compiled may be others', too.
  torch::jit::Module open(const void* file, uint64_t bytes, int trusted,
                          c10::Device on);

private:
  struct compiled {
    std::string key;
    torch::jit::Module module;
  };

  std::optional<torch::jit::Module> find(const std::string& key);
  void add(std::string key, torch::jit::Module x);

  std::mutex mutex_;
  std::list<compiled> all_; ///< guarded; what was used last is first
  std::map<std::string_view, std::list<compiled>::iterator>
    by_key_;         ///< guarded
  size_t bytes_ = 0; ///< guarded
};

} // namespace millrace
