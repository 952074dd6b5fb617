// SPDX-License-Identifier: Apache-2.0
#include "actors/chain/store_watch_state.hpp"

#include <utility>

#include "models/chunks.hpp"
#include "runtime/log.hpp"

namespace millrace {

void store_watch_state::start(
  store_watch_actor::stateful_pointer<store_watch_state> self,
  store_watch_options options) {
  self_ = self;
  options_ = std::move(options);
  set_common_handlers(self);
  look();
}

void store_watch_state::look() {
  read_index(*options_.store, [tell = teller<index_read>(self_)](auto x) {
    tell({std::make_shared<decltype(x)>(std::move(x))});
  });
}

/// Keeps the last index until another could be read: a store that cannot be
/// reached for a while is not empty.
void store_watch_state::on_read(const index_read& message) {
  self_->delayed_send(self_, options_.settings.look, tick::value);
  auto& found = *message.content;
  if (!found) {
    auto before = std::exchange(error_, found.failure().text);
    if (before.empty()) { // once: the text may differ each time
      log_event(log_level::error, "store", "unreadable",
                {{"store", options_.name}, {"error", error_}});
      report();
    }
    return before == error_ ? void() : tell_owner();
  }
  if (!error_.empty() || read_ == timestamp{})
    log_event(log_level::info, "store", "read",
              {{"store", options_.name},
               {"models", std::to_string(found->models.size())}});
  auto was_fine = std::exchange(error_, {}).empty();
  auto first = std::exchange(read_, now()) == timestamp{};
  if (!first && was_fine && models_ == found->models)
    return;
  models_ = found->models;
  tell_owner();
  report();
}

void store_watch_state::tell_owner() {
  auto trouble =
    error_.empty() ? "" : "object store " + options_.name + ": " + error_;
  self_->send(options_.owner,
              stored_models{options_.name, models_, std::move(trouble)});
}

/// Reports to the chain controller, as the relay of a host does.
void store_watch_state::report() {
  content_report out;
  out.node = std::string{store_prefix} + options_.name;
  for (auto& x : models_) {
    content_state y;
    y.content = x.content;
    y.model = x.model;
    y.version = x.version;
    y.bytes = x.bytes;
    y.chunks = chunks_of(x);
    y.token = folder_of(x);
    y.lasts = error_.empty();
    out.contents.push_back(std::move(y));
  }
  if (auto to = options_.net->resolve("./chains"))
    self_->send(caf::actor_cast<chain_controller_actor>(to), std::move(out));
}

store_status store_watch_state::on_get_store() const {
  store_status out;
  out.url = options_.settings.url;
  out.models = models_.size();
  for (auto& x : models_)
    out.bytes += x.bytes;
  if (read_ != timestamp{})
    out.read_ago = to_us(now() - read_);
  out.error = error_;
  return out;
}

store_watch_actor::behavior_type
store_watch(store_watch_actor::stateful_pointer<store_watch_state> self,
            store_watch_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](report_contents) { s.report(); },
    [&s](get_store) { return s.on_get_store(); },
    [&s](tick) { s.look(); },
    [&s](const index_read& x) { s.on_read(x); },
  };
}

} // namespace millrace
