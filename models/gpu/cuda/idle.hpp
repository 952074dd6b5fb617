// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace millrace::cuda {

/// A pool of objects that are created on demand and kept for the next user. Any
/// thread.
template <class T>
class idle {
public:
  /// A kept object, else a new one. Throws as its constructor.
  T take() {
    {
      std::lock_guard guard{mutex_};
      if (!kept_.empty()) {
        auto out = std::move(kept_.back());
        kept_.pop_back();
        return out;
      }
    }
    return T{};
  }

  void give_back(T item) {
    std::lock_guard guard{mutex_};
    kept_.push_back(std::move(item));
  }

private:
  std::mutex mutex_;
  std::vector<T> kept_; ///< guarded
};

} // namespace millrace::cuda
