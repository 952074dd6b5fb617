// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace millrace::cuda {

/// Things that are made when they are needed and kept for the next user. Any
/// thread.
template <class T>
class idle {
public:
  /// One that is kept, else a new one; what making it throws.
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

  void give_back(T x) {
    std::lock_guard guard{mutex_};
    kept_.push_back(std::move(x));
  }

private:
  std::mutex mutex_;
  std::vector<T> kept_; ///< guarded
};

} // namespace millrace::cuda
