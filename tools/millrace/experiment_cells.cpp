// SPDX-License-Identifier: Apache-2.0
#include "millrace/experiment_cells.hpp"

#include <algorithm>

#include "runtime/nearest.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr size_t cells_max = 10'000;

/// The changes of an axis with these names; all changes without names.
std::vector<scenario_change> chosen(const std::vector<scenario_change>& all,
                                    const std::vector<std::string>& names) {
  std::vector<scenario_change> out;
  for (auto& x : all)
    if (names.empty() || std::count(names.begin(), names.end(), x.name) != 0)
      out.push_back(x);
  return out;
}

void apply(const scenario_change& x, const std::string& axis,
           const std::string& key, experiment_cell& cell) {
  cell.at[axis] = x.name;
  if (!key.empty())
    cell.set.push_back(key + "=" + x.name);
  cell.set.insert(cell.set.end(), x.set.begin(), x.set.end());
  for (auto& [variable, text] : x.let)
    cell.let[variable] = text;
}

/// Appends an axis to a plan: each cell is repeated for each of the changes.
result<void> cross(experiment_plan& plan, const std::string& axis,
                   const std::string& key,
                   const std::vector<scenario_change>& all,
                   const std::vector<std::string>& names) {
  auto changes = chosen(all, names);
  plan.axes.push_back(axis);
  plan.whole[axis] = changes.size() == all.size();
  for (auto& x : changes)
    plan.values[axis].push_back(x.name);
  if (plan.cells.size() * changes.size() > cells_max)
    return error{
      ec::bad_request, "the experiment has more than 10,000 cells", {}};
  std::vector<experiment_cell> cells;
  for (auto& cell : plan.cells)
    for (auto& x : changes) {
      cells.push_back(cell);
      apply(x, axis, key, cells.back());
    }
  plan.cells = std::move(cells);
  return {};
}

/// The first element of the list with this value of the member; null: none.
const json* element_with(const json& list, const std::string& member,
                         const std::string& value) {
  if (!list.is_array())
    return nullptr;
  for (auto& x : list)
    if (auto i = x.find(member);
        i != x.end()
        && (i->is_string() ? i->get<std::string>() : i->dump()) == value)
      return &x;
  return nullptr;
}

/// Removes the first part of a path, such as "starts[source=store]".
std::string take_part(std::string& path) {
  size_t depth = 0, end = 0;
  for (; end < path.size(); ++end) {
    depth += path[end] == '[';
    depth -= path[end] == ']' && depth > 0;
    if (path[end] == '.' && depth == 0)
      break;
  }
  auto out = path.substr(0, end);
  path.erase(0, std::min(path.size(), end + 1));
  return out;
}

} // namespace

result<experiment_plan> plan_cells(const experiment& described, bool quick,
                                   const std::vector<std::string>& modes) {
  std::vector<std::string> known;
  for (auto& m : described.modes)
    known.push_back(m.name);
  for (auto& m : modes)
    if (std::count(known.begin(), known.end(), m) == 0)
      return error{ec::bad_request,
                   "--mode: " + described.name + " has no mode " + shown(m)
                     + suggestion(m, known) + "; there are "
                     + joined(known, ", ", [](auto& y) { return y; }),
                   {}};
  experiment_plan out;
  out.cells.resize(1);
  for (auto& axis : described.axes)
    if (auto done = cross(out, axis.name, axis.key, axis.values,
                          quick ? axis.quick : std::vector<std::string>{});
        !done)
      return done.failure();
  auto wanted = modes.empty() && quick ? described.quick_modes : modes;
  if (auto done = cross(out, mode_axis, "", described.modes, wanted); !done)
    return done.failure();
  for (auto& cell : out.cells)
    for (auto& option : cell.set)
      option = substitute(option, cell.let).value_or(option);
  for (auto& cell : out.cells)
    for (auto& y : described.without)
      if (cell.left_out.empty() && selects(y.at, cell.at))
        cell.left_out = y.why.empty() ? "left out" : y.why;
  return out;
}

std::string name_of_cell(const experiment_plan& plan, const cell_selector& at) {
  return joined(plan.axes, ", ", [&](auto& axis) {
    auto i = at.find(axis);
    return i == at.end() ? std::string{"-"} : i->second;
  });
}

result<double> number_at(const json& summary, const std::string& path) {
  auto no = [&](const std::string& part) {
    return error{
      ec::bad_request, "the run has no " + part + " (" + path + ")", {}};
  };
  const auto* at = &summary;
  for (auto rest = path; !rest.empty();) {
    auto part = take_part(rest);
    auto bracket = part.find('[');
    auto name = part.substr(0, bracket);
    auto member = at->is_object() ? at->find(name) : at->end();
    if (member == at->end())
      return no(name);
    at = &*member;
    if (bracket == std::string::npos)
      continue;
    auto inside = part.substr(bracket + 1, part.size() - bracket - 2);
    auto equals = std::min(inside.find('='), inside.size());
    at = element_with(*at, inside.substr(0, equals),
                      inside.substr(std::min(inside.size(), equals + 1)));
    if (at == nullptr)
      return no(part);
  }
  if (!at->is_number())
    return error{ec::bad_request, path + " is no number", {}};
  return at->get<double>();
}

} // namespace millrace
