// SPDX-License-Identifier: Apache-2.0
#include "actors/chain/chain_book.hpp"

#include <algorithm>
#include <set>

namespace millrace {

namespace {

/// Most sources of a chain.
constexpr size_t most_sources = 4;

/// Chunks that the host before must be ahead, so that a slow receiver does not
/// merely wait for chunks.
constexpr uint64_t enough_ahead = 4;

/// Largest factor of the patience while no chunk arrives.
constexpr int most_slack = 64;

/// Patience with a store: longer than a timeout of its connection and a retry.
constexpr nanoseconds remote_patience = 15s;

/// A host is too slow if others are faster by this factor.
constexpr double too_slow = 2;

bool is_shorter(const chain_book::chain& a, const chain_book::chain& b) {
  return a.members.size() < b.members.size();
}

} // namespace

void chain_book::report(const std::string& node, const standing& progress,
                        timestamp now) {
  auto [i, fresh] =
    hosts_.try_emplace(node, host{progress, now, now, progress.missing});
  auto& h = i->second;
  if (!fresh && progress.wants && progress.missing < h.is.missing) {
    auto chunk =
      (now - h.moved) / static_cast<int64_t>(h.is.missing - progress.missing);
    pace_ = std::max<nanoseconds>(chunk, pace_ / 2);
    slack_ = 1;
  }
  if (!fresh
      && (progress.missing < h.is.missing || progress.wants != h.is.wants))
    h.moved = now;
  auto more = progress.missing > h.is.missing; // the size has become known
  h.is = progress;
  if (more) {
    h.since = now;
    h.had = progress.missing;
  }
}

void chain_book::host::place(timestamp now) {
  moved = since = now;
  had = is.missing;
  rate.reset();
}

std::optional<double> chain_book::rate_of(const std::string& node) const {
  auto i = hosts_.find(node);
  return i == hosts_.end() ? std::nullopt : i->second.rate;
}

void chain_book::measure(timestamp now) {
  for (auto& [node, h] : hosts_) {
    if (!h.is.wants || now - h.since < patience_)
      continue;
    auto got = h.had - std::min(h.had, h.is.missing);
    h.rate = static_cast<double>(got) / to_seconds(now - h.since);
    h.since = now;
    h.had = h.is.missing;
  }
}

void chain_book::lose(const std::string& node) {
  hosts_.erase(node);
}

std::vector<std::string> chain_book::hosts() const {
  std::vector<std::string> out;
  for (auto& [node, h] : hosts_)
    out.push_back(node);
  return out;
}

std::vector<std::string> chain_book::givers() const {
  std::vector<std::string> out;
  for (auto& [node, h] : hosts_)
    if (h.is.gives && h.is.missing == 0)
      out.push_back(node);
  return out;
}

bool chain_book::is_in_chain(const std::string& node) const {
  return std::any_of(chains_.begin(), chains_.end(), [&](auto& x) {
    return std::count(x.members.begin(), x.members.end(), node) != 0;
  });
}

/// Removes hosts that left or want nothing. The receivers behind a complete
/// host become a chain with that host as source.
void chain_book::drop_those_done() {
  std::vector<chain> out;
  for (auto& x : chains_) {
    out.push_back({std::move(x.sources), {}});
    for (auto& node : x.members) {
      auto i = hosts_.find(node);
      if (i == hosts_.end())
        continue;
      if (i->second.is.wants)
        out.back().members.push_back(node);
      else
        out.push_back({{node}, {}});
    }
  }
  std::erase_if(out, [](auto& x) { return x.members.empty(); });
  chains_ = std::move(out);
}

/// Gives every chain a complete host as its own source. Chains without a source
/// are joined to the shortest chains.
void chain_book::find_sources() {
  auto all = givers();
  std::set<std::string> unused{all.begin(), all.end()};
  for (auto& x : chains_) {
    std::erase_if(x.sources, [&](auto& y) { return !unused.contains(y); });
    if (!x.sources.empty())
      x.sources.resize(1);
    for (auto& node : x.sources)
      unused.erase(node);
  }
  for (auto& x : chains_)
    if (x.sources.empty() && !unused.empty())
      x.sources.push_back(unused.extract(unused.begin()).value());
  auto first_without = std::stable_partition(
    chains_.begin(), chains_.end(), [](auto& x) { return !x.sources.empty(); });
  if (first_without == chains_.begin() && first_without != chains_.end())
    ++first_without; // no complete host: one chain of all
  std::vector<chain> without{first_without, chains_.end()};
  chains_.erase(first_without, chains_.end());
  for (auto& x : without)
    join(x, *std::min_element(chains_.begin(), chains_.end(), is_shorter));
  // Complete hosts that are left become further sources.
  for (auto more = true; more;) {
    more = false;
    for (auto& x : chains_)
      if (!unused.empty() && x.sources.size() < most_sources) {
        x.sources.push_back(unused.extract(unused.begin()).value());
        more = true;
      }
  }
}

/// Appends a chain; hosts with more chunks stand first.
void chain_book::join(const chain& from, chain& to) {
  to.members.insert(to.members.end(), from.members.begin(), from.members.end());
  std::stable_sort(to.members.begin(), to.members.end(),
                   [this](auto& a, auto& b) {
                     return hosts_.at(a).is.missing < hosts_.at(b).is.missing;
                   });
}

/// Adds new receivers, sorted by rack, known slow hosts last. With an idle
/// source they form a new chain; otherwise they go to the end of a chain.
void chain_book::add_those_new(timestamp now) {
  std::vector<std::string> fresh;
  for (auto& [node, h] : hosts_)
    if (h.is.wants && !is_in_chain(node)) {
      fresh.push_back(node);
      h.place(now);
    }
  if (fresh.empty())
    return;
  auto rack_of = [this](const std::string& node) -> const std::string& {
    return hosts_.at(node).is.rack;
  };
  double fastest = 0;
  for (auto& node : fresh)
    fastest = std::max(fastest, hosts_.at(node).is.speed);
  auto rank = [&](const std::string& node) {
    auto speed = hosts_.at(node).is.speed;
    auto is_slow = speed > 0 && too_slow * speed < fastest;
    return std::pair<bool, const std::string&>{is_slow, rack_of(node)};
  };
  std::stable_sort(fresh.begin(), fresh.end(),
                   [&](auto& a, auto& b) { return rank(a) < rank(b); });
  std::set<std::string> idle;
  for (auto& node : givers())
    idle.insert(node);
  for (auto& x : chains_)
    if (!x.sources.empty())
      idle.erase(x.sources.front());
  // One new chain per idle source, each with a block of the new receivers.
  auto count = std::min(idle.size(), fresh.size());
  if (chains_.empty())
    count = std::max<size_t>(count, 1);
  for (size_t i = 0; i < count; ++i) {
    auto begin =
      fresh.begin() + static_cast<ptrdiff_t>(fresh.size() * i / count);
    auto end =
      fresh.begin() + static_cast<ptrdiff_t>(fresh.size() * (i + 1) / count);
    chain x;
    if (!idle.empty()) { // preferably a source in the block's first rack
      auto near = std::find_if(idle.begin(), idle.end(), [&](auto& y) {
        return rack_of(y) == rack_of(*begin);
      });
      x.sources = {*(near == idle.end() ? idle.begin() : near)};
      idle.erase(x.sources.front());
    }
    x.members.assign(begin, end);
    chains_.push_back(std::move(x));
  }
  if (count > 0)
    return;
  for (auto& node : fresh)
    std::min_element(chains_.begin(), chains_.end(), is_shorter)
      ->members.push_back(node);
}

/// Grows while chunks take long, and after each host that was passed over
/// without any chunk arriving since.
nanoseconds chain_book::patience() const {
  return std::max<nanoseconds>(slack_ * patience_, 3 * pace_);
}

/// Whether a host has received nothing for `patience`, although the host before
/// it has chunks that it lacks. A host that reads an object store gets more
/// time: it reads many small files first, and another host would start again.
bool chain_book::is_stalled(const chain& line, size_t i, timestamp now,
                            nanoseconds patience) const {
  auto& h = hosts_.at(line.members[i]);
  auto before = i == 0 ? 0 : hosts_.at(line.members[i - 1]).is.missing;
  auto could = i > 0 || !line.sources.empty();
  auto source =
    i == 0 && could ? hosts_.find(line.sources.front()) : hosts_.end();
  auto is_remote = source != hosts_.end() && source->second.is.remote;
  if (is_remote)
    patience = std::max(patience, slack_ * remote_patience);
  return could && before < h.is.missing && now - h.moved >= patience;
}

/// Whether a host receives much more slowly than others.
bool chain_book::is_slow(const chain& line, size_t i) const {
  auto& h = hosts_.at(line.members[i]);
  if (!h.rate || h.passed_over)
    return false;
  std::optional<double> others;
  if (i == 0) { // its source may be slow: compare with earlier rates
    for (size_t k = 1; k < line.members.size(); ++k)
      others =
        std::max(others.value_or(0), hosts_.at(line.members[k]).is.speed);
  } else if (auto& before = hosts_.at(line.members[i - 1]);
             before.is.missing + enough_ahead <= h.is.missing) {
    others = before.rate;
  }
  return others && too_slow * *h.rate < *others;
}

/// The host that delays the hosts behind it. Among stalled hosts the first one,
/// with half the patience: it may have stalled a little later.
std::optional<size_t> chain_book::obstacle_in(const chain& line,
                                              timestamp now) const {
  for (size_t i = 0; i + 1 < line.members.size(); ++i) {
    if (is_slow(line, i))
      return i;
    if (is_stalled(line, i, now, patience()))
      for (size_t first = 0;; ++first)
        if (is_stalled(line, first, now, patience() / 2))
          return first;
  }
  return std::nullopt;
}

void chain_book::pass_over_slow_ones(timestamp now) {
  for (auto& x : chains_) {
    auto i = obstacle_in(x, now);
    if (!i)
      continue;
    auto node = x.members[*i];
    auto slow = is_slow(x, *i);
    hosts_.at(node).passed_over |= slow;
    if (!slow)
      slack_ = std::min(2 * slack_, most_slack);
    x.members.erase(x.members.begin() + static_cast<ptrdiff_t>(*i));
    x.members.push_back(node);
    ++passed_over_;
    for (auto& y : x.members) // the patience starts anew at the new places
      hosts_.at(y).place(now);
  }
}

/// Object stores with all chunks of the content.
std::vector<std::string> chain_book::complete_stores() const {
  std::vector<std::string> out;
  for (auto& [node, h] : hosts_)
    if (h.is.remote && h.is.gives && h.is.missing == 0)
      out.push_back(node);
  return out;
}

chain_book::orders chain_book::plan(timestamp now) {
  drop_those_done();
  add_those_new(now);
  measure(now);
  pass_over_slow_ones(now);
  find_sources();
  orders out;
  auto stores = complete_stores();
  for (auto& x : chains_) {
    auto before = topology_ == bulk_topology::stores && !stores.empty()
                    ? stores
                    : x.sources;
    for (auto& node : x.members) {
      if (hosts_.at(node).is.wants)
        out[node] = before;
      if (topology_ == bulk_topology::chain)
        before = {node};
    }
  }
  // Without a complete host, hosts with more chunks serve the first receiver.
  for (auto& x : chains_) {
    auto& head = x.members.front();
    if (!out[head].empty())
      continue;
    for (auto& [node, h] : hosts_)
      if (h.is.gives && h.is.missing < hosts_.at(head).is.missing
          && !std::count(x.members.begin(), x.members.end(), node))
        out[head].push_back(node);
  }
  return out;
}

timestamp chain_book::next_due() const {
  auto out = far_future;
  for (auto& x : chains_)
    for (size_t i = 0; i + 1 < x.members.size(); ++i)
      if (auto h = hosts_.find(x.members[i]); h != hosts_.end())
        out = std::min(out, std::min(h->second.moved + patience(),
                                     h->second.since + patience_));
  return out;
}

} // namespace millrace
