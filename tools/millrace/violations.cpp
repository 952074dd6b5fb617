// SPDX-License-Identifier: Apache-2.0
#include "millrace/violations.hpp"

#include <map>
#include <set>

#include "millrace/print.hpp"
#include "simulator/invariants.hpp"

namespace millrace {

namespace {

constexpr size_t seeds_shown = 5;

/// "seed 7, first 2 of 5 faults: "; empty without a seed.
std::string place_of(const broken_promise& x) {
  std::string out;
  if (x.seed)
    out += "seed " + std::to_string(*x.seed);
  if (x.enough)
    out += ", first " + std::to_string(*x.enough) + " of "
           + std::to_string(x.drawn.value_or(0)) + " faults";
  return out.empty() ? out : out + ": ";
}

/// Violations of one invariant, by seed.
std::string paragraph(const std::vector<const broken_promise*>& all,
                      size_t width) {
  std::set<std::optional<uint64_t>> seeds;
  std::string shown;
  for (auto* x : all)
    if (seeds.insert(x->seed).second && seeds.size() <= seeds_shown)
      shown += "  "
               + wrapped(place_of(*x) + x->text, width > 2 ? width - 2 : 0, 4)
               + "\n";
  auto& name = all.front()->invariant;
  auto meaning = simulator::meaning_of(name);
  auto head = name + " (" + counted(all.size(), "violation")
              + (seeds.contains(std::nullopt)
                   ? ")"
                   : ", " + counted(seeds.size(), "seed") + ")");
  if (!meaning.empty())
    head += ": " + std::string{meaning};
  auto out = wrapped(head, width, 2) + "\n" + shown;
  if (seeds.size() > seeds_shown)
    out += "  and " + counted(seeds.size() - seeds_shown, "seed") + " more\n";
  return out;
}

} // namespace

std::string to_string(const broken_promise& broken) {
  auto place = place_of(broken);
  return place.empty() || broken.enough
           ? place + broken.invariant + " " + broken.text
           : "seed " + std::to_string(*broken.seed) + ", " + broken.invariant
               + " " + broken.text;
}

std::string
violations_text(const std::vector<broken_promise>& all, size_t width,
                const std::function<std::string(const broken_promise&)>& call) {
  // Sorted by number: I2 before I10.
  auto less = [](const std::string& a, const std::string& b) {
    return std::pair{a.size(), a} < std::pair{b.size(), b};
  };
  std::map<std::string, std::vector<const broken_promise*>, decltype(less)>
    groups{less};
  for (auto& x : all)
    groups[x.invariant].push_back(&x);
  std::string out;
  for (auto& [name, found] : groups) {
    out += paragraph(found, width);
    for (auto* x : found)
      if (x->seed) {
        // On one line, to be copied.
        out += "  look at it with\n  " + call(*x) + "\n";
        break;
      }
  }
  return out;
}

} // namespace millrace
