// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "actors/cache/cache.hpp"

namespace millrace {

/// State of a CACHE; see cache.hpp.
struct cache_state {
  const char* name = "cache";

  caf::result<fetched> on_fetch(const fetch& x);
  void on_opened(const bundle_opened& x);
  void on_listed(const bundle_list& x);
  void start(cache_actor::stateful_pointer<cache_state> me,
             std::shared_ptr<bundle_reader> from, supervisor_actor owner);

private:
  using key = std::pair<std::string, uint64_t>;

  /// A way for the reader's thread to reach this actor.
  template <class T>
  auto teller();

  struct entry {
    std::weak_ptr<const bundle> content;
    model_info info;
  };

  cache_actor::stateful_pointer<cache_state> self_ = nullptr;
  std::shared_ptr<bundle_reader> reader_;
  supervisor_actor owner_;
  std::map<key, entry> open_;
  std::map<key, std::vector<caf::typed_response_promise<fetched>>> opening_;
};

} // namespace millrace
