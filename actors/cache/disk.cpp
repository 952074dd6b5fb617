// SPDX-License-Identifier: Apache-2.0

/// \file
/// What a CACHE has on the disk: of what others gave it keeps what there is
/// room for.

#include <algorithm>

#include "actors/cache/cache_state.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// There may be room on the disk by then.
constexpr auto keep_again = 10s;

} // namespace

void cache_state::on_listed(const disk_listing& x) {
  on_disk_ = x.models;
  unusable_ = x.unusable;
  for (auto& [k, e] : open_) // what is called how may have changed
    if (auto* here = find_here(e.info.model, e.info.version);
        here != nullptr && here->content == e.info.content)
      e.info = *here;
  listed_ = true;
  std::set<std::string> changed{x.changed.begin(), x.changed.end()};
  std::erase_if(broken_, [&](auto& y) {
    return changed.contains(y.first)
           || std::none_of(on_disk_.begin(), on_disk_.end(),
                           [&](auto& z) { return z.content == y.first; });
  });
  open_what_is_back(changed);
  disk_changed();
}

void cache_state::on_kept_list(const kept_list& x) {
  auto gone = tier_->adopt(x.bundles);
  for (auto& content : gone)
    options_.keeper->drop(content);
  figures_->disk.evictions.add(static_cast<double>(gone.size()));
  figures_->quarantined.add(static_cast<double>(x.broken));
  if (!x.bundles.empty())
    log_event(log_level::info, "cache", "adopted",
              {{"bundles", std::to_string(tier_->all().size())}});
  disk_changed();
}

void cache_state::watch_until_whole(const std::string& content,
                                    const bundle& x) {
  if (!x.weights_file)
    return;
  x.weights_file->when(
    {0, x.weights_file->chunks()},
    [content, tell = teller<content_whole>(self_)](auto& there) {
      if (there)
        tell({content});
    });
}

/// It stays in memory until it is written. What people have put here is on the
/// disk already.
void cache_state::on_whole(const content_whole& x) {
  auto i = arrivals_.find(x.content);
  if (i == arrivals_.end() || !i->second.bytes || !tier_
      || i->second.from != place::hosts || is_put_here(x.content))
    return;
  auto& bytes = i->second.bytes;
  auto gone = tier_->begin(describe(*bytes, {}));
  if (!gone && gone.failure().code == ec::conflict)
    return; // it is kept already
  if (!gone) {
    i->second.not_kept.clear(); // it would be, were there less else
    log_event(log_level::info, "cache", "not_kept",
              {{"model", bytes->info.name},
               {"content", x.content},
               {"error", gone.failure().text}});
    return;
  }
  for (auto& content : *gone)
    drop_kept(content);
  figures_->disk.evictions.add(static_cast<double>(gone->size()));
  i->second.written = memory_->use(x.content);
  options_.keeper->keep(
    bytes, [content = x.content, tell = teller<content_kept>(self_)](auto how) {
      tell({content,
            how ? nullptr : std::make_shared<const error>(how.failure())});
    });
}

void cache_state::on_kept(const content_kept& x) {
  tier_->end(x.content, !x.why);
  auto model = model_of(x.content);
  auto& written = arrivals_.at(x.content); // it stayed for that
  written.written.reset();
  if (x.why) {
    if (written.not_kept.empty())
      log_event(
        log_level::warning, "cache", "cannot_keep",
        {{"model", model}, {"content", x.content}, {"error", x.why->text}});
    written.not_kept = model + " cannot be kept: " + x.why->text;
    self_->delayed_send(self_, keep_again, content_whole{x.content});
  } else {
    log_event(log_level::info, "cache", "kept",
              {{"model", model}, {"content", x.content}});
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
  if (auto relay = options_.find_relay(); relay && !arrivals_.contains(content))
    self_->send(relay, drop_content{content}); // else it gives from memory
}

/// It is not used any more, nor given to others: whoever needs it gets it from
/// them.
void cache_state::on_broken(const content_broken& x) {
  log_event(log_level::error, "cache", "quarantined",
            {{"model", model_of(x.content)},
             {"content", x.content},
             {"error", x.why->text}});
  quarantine(x.content,
             options_.keeper && options_.keeper->is_its_own(x.directory),
             *x.why);
  if (auto i = arrivals_.find(x.content);
      i != arrivals_.end() && i->second.from == place::read)
    forget(x.content);
}

/// It is not to be counted on any more: what was kept goes, and what people put
/// here stays, unused. Of an earlier format (without a content) there is no
/// other copy.
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

/// What others can get from the disk here.
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
