// SPDX-License-Identifier: Apache-2.0
#include "shell/completion.hpp"

#include <algorithm>
#include <set>

#include "shell/ask.hpp"
#include "shell/words.hpp"

namespace millrace {

namespace {

constexpr auto names_valid = 2s;

} // namespace

argument kind_of_next(const std::vector<std::string>& words) {
  auto at = words.begin();
  auto watch = at != words.end() && *at == "watch";
  if (watch) // the argument of watch is a command
    at += at + 1 != words.end() && read_seconds(at[1]) ? 2 : 1;
  if (at == words.end())
    return watch ? argument::watched : argument::command;
  for (auto& x : shell_commands()) {
    auto place = static_cast<size_t>(words.end() - at) - 1;
    if (x.name == *at)
      return place < x.takes.size() ? x.takes[place] : argument::other;
  }
  return argument::other;
}

void completer::look() {
  if (looked_ != timestamp{} && steady_now() - looked_ < names_valid)
    return;
  if (auto x = node_names(cluster_))
    nodes_ = std::move(*x);
  std::set<std::string> names;
  if (auto x = ask_registry(cluster_))
    for (auto& m : x->list.models)
      names.insert(m.settings.model);
  if (auto x = ask_all(cluster_)) // also bundles that are not registered yet
    for (auto& n : x->nodes)
      for (auto& m : n.models)
        names.insert(m.model);
  models_.assign(names.begin(), names.end());
  looked_ = steady_now();
}

std::vector<std::string> completer::all_of(argument kind) {
  switch (kind) {
  case argument::command:
  case argument::watched: {
    std::vector<std::string> out;
    for (auto& c : shell_commands())
      if (c.watched || kind == argument::command)
        out.push_back(c.name);
    return out;
  }
  case argument::level: {
    std::vector<std::string> out;
    for (auto name : names_of(log_level{}))
      out.emplace_back(name);
    return out;
  }
  case argument::node:
    look();
    return nodes_;
  case argument::model:
    look();
    return models_;
  case argument::file:
  case argument::other:
    break;
  }
  return {};
}

std::vector<std::string>
completer::candidates(const std::vector<std::string>& words,
                      const std::string& begun) {
  auto before = words;
  std::erase_if(before, [](auto& x) { return x == "--yes" || x == "-y"; });
  auto out = all_of(kind_of_next(before));
  std::erase_if(out, [&](auto& x) { return !x.starts_with(begun); });
  std::sort(out.begin(), out.end());
  return out;
}

} // namespace millrace
