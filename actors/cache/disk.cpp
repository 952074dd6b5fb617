// SPDX-License-Identifier: Apache-2.0

/// \file
/// The disk side of a CACHE: the bundle directory, and the disk cache for
/// bundles from other hosts.

#include <algorithm>

#include "actors/cache/cache_state.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// Pause before a failed write to the disk cache is retried: the disk may have
/// room by then.
constexpr auto keep_again = 10s;

} // namespace

void cache_state::on_listed(const disk_listing& message) {
  on_disk_ = message.models;
  unusable_ = message.unusable;
  for (auto& [k, e] : open_) // aliases may have changed
    if (auto* here = find_here(e.info.model, e.info.version);
        here != nullptr && here->content == e.info.content)
      e.info = *here;
  listed_ = true;
  std::set<std::string> changed{message.changed.begin(), message.changed.end()};
  std::erase_if(broken_, [&](auto& y) {
    return changed.contains(y.first)
           || std::none_of(on_disk_.begin(), on_disk_.end(),
                           [&](auto& z) { return z.content == y.first; });
  });
  open_what_is_back(changed);
  disk_changed();
}

void cache_state::on_kept_list(const kept_list& message) {
  auto gone = tier_->adopt(message.bundles);
  for (auto& content : gone)
    options_.keeper->drop(content);
  figures_->disk.evictions.add(static_cast<double>(gone.size()));
  figures_->quarantined.add(static_cast<double>(message.broken));
  if (!message.bundles.empty())
    log_event(log_level::info, "cache", "adopted",
              {{"bundles", std::to_string(tier_->all().size())}});
  disk_changed();
}

void cache_state::watch_until_whole(const std::string& content,
                                    const bundle& opened) {
  if (!opened.weights_file)
    return;
  opened.weights_file->when(
    {0, opened.weights_file->chunks()},
    [content, tell = teller<content_whole>(self_)](auto& there) {
      if (there)
        tell({content});
    });
}

/// Writes a complete bundle to the disk cache; the bundle stays in memory until
/// then. A bundle in the bundle directory needs no second copy on the disk.
void cache_state::on_whole(const content_whole& message) {
  auto i = arrivals_.find(message.content);
  if (i == arrivals_.end() || !i->second.bytes || !tier_
      || i->second.from != place::hosts || is_put_here(message.content))
    return;
  auto& bytes = i->second.bytes;
  auto gone = tier_->begin(describe(*bytes, {}));
  if (!gone && gone.failure().code == ec::conflict)
    return; // already in the disk cache
  if (!gone) {
    i->second.not_kept.clear(); // no room, but no write error
    log_event(log_level::info, "cache", "not_kept",
              {{"model", bytes->info.name},
               {"content", message.content},
               {"error", gone.failure().text}});
    return;
  }
  for (auto& content : *gone)
    drop_kept(content);
  figures_->disk.evictions.add(static_cast<double>(gone->size()));
  i->second.written = memory_->use(message.content);
  options_.keeper->keep(bytes, [content = message.content,
                                tell = teller<content_kept>(self_)](auto how) {
    tell(
      {content, how ? nullptr : std::make_shared<const error>(how.failure())});
  });
}

void cache_state::on_kept(const content_kept& message) {
  tier_->end(message.content, !message.why);
  auto model = model_of(message.content);
  // The lease prevented an eviction.
  auto& written = arrivals_.at(message.content);
  written.written.reset();
  if (message.why) {
    if (written.not_kept.empty())
      log_event(log_level::warning, "cache", "cannot_keep",
                {{"model", model},
                 {"content", message.content},
                 {"error", message.why->text}});
    written.not_kept = model + " cannot be kept: " + message.why->text;
    self_->delayed_send(self_, keep_again, content_whole{message.content});
  } else {
    log_event(log_level::info, "cache", "kept",
              {{"model", model}, {"content", message.content}});
    written.not_kept.clear();
  }
  disk_changed();
}

void cache_state::drop_kept(const std::string& content) {
  log_event(log_level::info, "cache", "dropped",
            {{"model", model_of(content)}, {"content", content}});
  tier_->drop(content);
  options_.keeper->drop(content);
  disk_changed();
  // A content in memory can still be sent to other hosts.
  if (auto relay = options_.find_relay(); relay && !arrivals_.contains(content))
    self_->send(relay, drop_content{content});
}

/// Stops all use of a broken bundle, on this host and for other hosts. The next
/// fetch gets the content from another host.
void cache_state::on_broken(const content_broken& message) {
  log_event(log_level::error, "cache", "quarantined",
            {{"model", model_of(message.content)},
             {"content", message.content},
             {"error", message.why->text}});
  quarantine(message.content,
             options_.keeper && options_.keeper->is_its_own(message.directory),
             *message.why);
  if (auto i = arrivals_.find(message.content);
      i != arrivals_.end() && i->second.from == place::read)
    forget(message.content);
}

/// Marks a content as unusable: the disk cache drops it, the bundle directory
/// keeps it unused. A bundle of an earlier format (without a content) stays in
/// use, for no other copy can be identified.
void cache_state::quarantine(const std::string& content, bool kept,
                             const error& why) {
  auto is_news =
    kept ? tier_->has(content)
         : !content.empty() && broken_.try_emplace(content, why.text).second;
  if (!is_news)
    return;
  figures_->quarantined.add();
  if (kept)
    drop_kept(content);
  else
    disk_changed();
}

/// Lists the bundles on the disk that other hosts can fetch from this host.
bundle_list cache_state::list() const {
  bundle_list out;
  std::set<std::string> listed;
  for (auto& x : on_disk_)
    if (!broken_.contains(x.content)) {
      listed.insert(x.content);
      out.models.push_back(x);
    }
  if (tier_)
    for (auto& [content, x] : tier_->all())
      if (!listed.contains(content))
        out.kept.push_back(x);
  return out;
}

void cache_state::disk_changed() {
  keep_pinned_contents();
  if (auto relay = options_.find_relay())
    self_->send(relay, list());
}

} // namespace millrace
