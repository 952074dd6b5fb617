// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

namespace millrace::confined {

/// Objects with one user each at a time, which outlive this. Any thread.
template <class T>
class loans {
public:
  void add(T& item) { free_.push_back(&item); }

  /// A borrowed object. The constructor waits for a free one; the destructor
  /// returns it.
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
