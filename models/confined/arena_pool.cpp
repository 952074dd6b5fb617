// SPDX-License-Identifier: Apache-2.0
#include "models/confined/arena_pool.hpp"

#include <mutex>
#include <vector>

namespace millrace::confined {

struct arena_pool::state {
  std::mutex mutex;
  std::vector<std::unique_ptr<slot>> free; ///< guarded
};

arena_pool::arena_pool() : state_(std::make_shared<state>()) {
  for (uint32_t i = size; i > 0; --i)
    state_->free.push_back(std::make_unique<slot>(slot{i - 1, {}}));
}

std::shared_ptr<arena_pool::slot> arena_pool::take() {
  std::lock_guard guard{state_->mutex};
  if (state_->free.empty())
    return nullptr;
  auto mine = std::move(state_->free.back());
  state_->free.pop_back(); // keeps its capacity, so that returning a slot
                           // allocates nothing
  return {mine.release(), [to = state_](slot* x) {
            std::lock_guard back{to->mutex};
            to->free.emplace_back(x);
          }};
}

} // namespace millrace::confined
