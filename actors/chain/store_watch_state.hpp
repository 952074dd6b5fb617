// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/chain/store_watch.hpp"

namespace millrace {

/// State of a STORE WATCH; see store_watch.hpp.
struct store_watch_state {
  const char* name = "store";

  void start(store_watch_actor::stateful_pointer<store_watch_state> self,
             store_watch_options options);
  void look();
  void on_read(const index_read& message);
  void report();
  store_status on_get_store() const;

private:
  void tell_owner();
  timestamp now() const { return self_->clock().now(); }

  store_watch_actor::stateful_pointer<store_watch_state> self_ = nullptr;
  store_watch_options options_;
  std::vector<model_info> models_;
  timestamp read_{}; ///< zero: never
  std::string error_;
};

} // namespace millrace
