// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

namespace millrace::confined {

/// Things that have one user each at a time, and outlive this. Any thread.
template <class T>
class loans {
public:
  void add(T& x) { free_.push_back(&x); }

  /// One of them, waited for, and free again whatever happens.
  class loan {
  public:
    explicit loan(loans& from) : from_(from) {
      std::unique_lock guard{from.mutex_};
      from.freed_.wait(guard, [&] { return !from.free_.empty(); });
      what_ = from.free_.back();
      from.free_.pop_back();
    }
    ~loan() {
      {
        std::lock_guard guard{from_.mutex_};
        from_.free_.push_back(what_);
      }
      from_.freed_.notify_one();
    }
    loan(const loan&) = delete;
    loan& operator=(const loan&) = delete;

    T& operator*() const { return *what_; }

  private:
    loans& from_;
    T* what_;
  };

private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<T*> free_; ///< guarded
};

} // namespace millrace::confined
