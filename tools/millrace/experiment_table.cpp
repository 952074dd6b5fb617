// SPDX-License-Identifier: Apache-2.0
#include "millrace/experiment_table.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Values by seed, or the reason for none.
struct sample_of_seeds {
  std::map<uint64_t, double> values;
  std::string empty;
  bool left_out = false;
};

result<double> divisor_of(const json& summary, const std::string& text) {
  if (text.empty())
    return 1.0;
  if (auto number = number_in<double>(text))
    return *number;
  return number_at(summary, text);
}

class evaluation {
public:
  evaluation(const experiment& x, const experiment_plan& plan,
             std::span<const cell_run> runs)
    : x_(x),
      plan_(plan) {
    for (auto& run : runs)
      runs_[run.at].push_back(&run);
    for (auto& cell : plan.cells)
      cells_[cell.at] = &cell;
  }

  experiment_table run() {
    for (auto& m : x_.measures)
      add_measure(m);
    for (auto& r : x_.ratios)
      add_ratio(r);
    for (auto& row : out_.rows)
      add_printed(row);
    for (auto& a : x_.assertions)
      out_.assertions.push_back(check(a));
    return std::move(out_);
  }

private:
  result<double> measured(const experiment_measure& m,
                          const experiment_cell& cell, const json& summary) {
    // Substitution succeeds: the experiment was checked.
    auto value =
      number_at(summary, substitute(m.path, cell.let).value_or(m.path));
    if (!value)
      return value;
    auto divisor =
      divisor_of(summary, substitute(m.divide, cell.let).value_or(m.divide));
    if (!divisor)
      return divisor;
    auto out = *value * m.times / *divisor;
    if (!std::isfinite(out))
      return error{ec::bad_request, "divided by 0", {}};
    return out;
  }

  sample_of_seeds sample(const experiment_measure& m, const cell_selector& at) {
    auto& cell = *cells_.at(at);
    sample_of_seeds out;
    out.left_out = !cell.left_out.empty();
    out.empty = cell.left_out;
    auto runs = runs_.find(at);
    if (out.left_out)
      return out;
    if (runs == runs_.end()) {
      out.empty = "not run yet";
      return out;
    }
    for (auto* run : runs->second) {
      if (run->found.is_null()) {
        out.empty = run->error.empty() ? "not run yet" : run->error;
        continue;
      }
      auto value = measured(m, cell, run->found);
      if (value)
        out.values[run->seed] = *value;
      else
        out.empty = value.failure().text;
    }
    return out;
  }

  void add_row(figure_row row, const sample_of_seeds& x) {
    std::vector<double> values;
    for (auto& [seed, value] : x.values)
      values.push_back(value);
    row.ours = mean_with_interval(values);
    row.empty = values.empty() ? x.empty : "";
    row.left_out = values.empty() && x.left_out;
    out_.rows.push_back(std::move(row));
  }

  /// Adds means over an axis, seed by seed; `all`: samples of its values.
  void add_means(const figure_row& like, const std::string& axis,
                 const std::vector<sample_of_seeds>& all) {
    if (!plan_.whole.at(axis) || all.size() < 2)
      return;
    for (auto* kind : {mean_value, geometric_value}) {
      sample_of_seeds out;
      for (auto& x : all)
        if (x.values.empty()) {
          out.empty = "a value of " + axis + " is empty";
          out.left_out = out.left_out || x.left_out;
        }
      if (out.empty.empty())
        for (auto& [seed, first] : all.front().values) {
          std::vector<double> values;
          for (auto& x : all)
            if (auto i = x.values.find(seed); i != x.values.end())
              values.push_back(i->second);
          if (values.size() == all.size())
            out.values[seed] = kind == mean_value ? arithmetic_mean(values)
                                                  : geometric_mean(values);
        }
      auto row = like;
      row.at[axis] = kind;
      add_row(std::move(row), out);
    }
  }

  /// Calls f for each combination of the values of these axes.
  void for_each_of(const std::vector<std::string>& axes,
                   const std::function<void(const cell_selector&)>& f,
                   cell_selector at = {}) {
    if (at.size() == axes.size())
      return f(at);
    auto& axis = axes[at.size()];
    // `at` is sorted by name; here only its size counts.
    for (auto& value : plan_.values.at(axis)) {
      auto next = at;
      next[axis] = value;
      for_each_of(axes, f, std::move(next));
    }
  }

  /// Adds rows of samples over some axes, and their means over one of the axes.
  void add_rows(const figure_row& like, const std::vector<std::string>& axes,
                const std::string& over,
                const std::function<sample_of_seeds(const cell_selector&)>& f) {
    for_each_of(axes, [&](const cell_selector& at) {
      auto row = like;
      row.at.insert(at.begin(), at.end());
      add_row(std::move(row), f(at));
    });
    if (over.empty() || std::count(axes.begin(), axes.end(), over) == 0)
      return;
    auto others = axes;
    std::erase(others, over);
    for_each_of(others, [&](const cell_selector& at) {
      std::vector<sample_of_seeds> all;
      for (auto& value : plan_.values.at(over)) {
        auto cell = at;
        cell[over] = value;
        all.push_back(f(cell));
      }
      auto row = like;
      row.at.insert(at.begin(), at.end());
      add_means(row, over, all);
    });
  }

  void add_measure(const experiment_measure& m) {
    figure_row like;
    like.figure = m.name;
    like.unit = m.unit;
    like.digits = m.digits;
    add_rows(like, plan_.axes, m.over,
             [&](const cell_selector& at) { return sample(m, at); });
  }

  bool in_plan(const cell_selector& x) const {
    return std::all_of(x.begin(), x.end(), [&](auto& y) {
      auto& values = plan_.values.at(y.first);
      return std::count(values.begin(), values.end(), y.second) != 0;
    });
  }

  const json* summary_of(const cell_selector& at, uint64_t seed) const {
    auto runs = runs_.find(at);
    if (runs != runs_.end())
      for (auto* run : runs->second)
        if (run->seed == seed && !run->found.is_null())
          return &run->found;
    return nullptr;
  }

  /// The difference in settings that must be equal for the ratio; empty: none.
  std::string difference(const experiment_ratio& r, const cell_selector& of,
                         const cell_selector& to, uint64_t seed) {
    for (auto& path : r.equal) {
      auto value = [&](const cell_selector& at) {
        return number_at(*summary_of(at, seed),
                         substitute(path, cells_.at(at)->let).value_or(path));
      };
      auto a = value(of);
      auto b = value(to);
      if (!a || !b)
        return (a ? b : a).failure().text;
      if (std::abs(*a - *b) > r.within * std::max(std::abs(*a), std::abs(*b)))
        return "the runs differ in " + path + ": " + format_number(*a) + " and "
               + format_number(*b) + " (seed " + std::to_string(seed) + ")";
    }
    return {};
  }

  sample_of_seeds quotient(const experiment_ratio& r,
                           const experiment_measure& m,
                           const cell_selector& others) {
    auto of = others;
    of.insert(r.of.begin(), r.of.end());
    auto to = others;
    to.insert(r.to.begin(), r.to.end());
    auto above = sample(m, of);
    auto below = sample(m, to);
    sample_of_seeds out;
    out.left_out = above.left_out || below.left_out;
    out.empty = above.values.empty() ? above.empty : below.empty;
    for (auto& [seed, value] : above.values) {
      auto i = below.values.find(seed);
      if (i == below.values.end())
        continue;
      auto why = difference(r, of, to, seed);
      if (why.empty() && i->second == 0)
        why = "divided by 0";
      if (!why.empty()) { // one such seed invalidates the comparison
        out.values.clear();
        out.empty = why;
        return out;
      }
      out.values[seed] = value / i->second;
    }
    return out;
  }

  void add_ratio(const experiment_ratio& r) {
    if (!in_plan(r.of) || !in_plan(r.to))
      return;
    auto m = std::find_if(x_.measures.begin(), x_.measures.end(),
                          [&](auto& y) { return y.name == r.measure; });
    figure_row like;
    like.figure = r.name;
    like.is_ratio = true;
    like.unit = "x";
    like.digits = r.digits;
    for (auto& [axis, value] : r.of)
      like.at[axis] = value + " / " + r.to.at(axis);
    auto axes = plan_.axes;
    std::erase_if(axes, [&](auto& axis) { return r.of.contains(axis); });
    add_rows(like, axes, r.over,
             [&](const cell_selector& at) { return quotient(r, *m, at); });
  }

  void add_printed(figure_row& row) {
    for (auto& p : x_.printed)
      if ((row.is_ratio ? p.ratio : p.measure) == row.figure
          && selects(p.at, row.at)) {
        row.printed = p.value;
        row.place = p.place.empty() ? x_.figure : p.place;
      }
  }

  static std::string bounds_of(const experiment_assertion& a) {
    auto out = a.least ? "at least " + format_number(*a.least) : std::string{};
    if (a.most)
      out += (a.least ? " and at most " : "at most ") + format_number(*a.most);
    return out;
  }

  checked_assertion check(const experiment_assertion& a) {
    using enum checked_assertion::outcome;
    auto& figure = a.ratio.empty() ? a.measure : a.ratio;
    checked_assertion out{a.says, not_checked, "not in this run"};
    if (out.says.empty())
      out.says = figure + " is " + bounds_of(a);
    for (auto& row : out_.rows) {
      // Means are checked only where the assertion names them.
      auto is_mean = std::any_of(row.at.begin(), row.at.end(), [](auto& y) {
        return y.second == mean_value || y.second == geometric_value;
      });
      auto named = std::any_of(a.at.begin(), a.at.end(), [](auto& y) {
        return y.second == mean_value || y.second == geometric_value;
      });
      if (row.figure != figure || row.is_ratio == a.ratio.empty()
          || is_mean != named || !selects(a.at, row.at))
        continue;
      auto place = name_of_cell(plan_, row.at) + ": ";
      if (row.left_out) {
        if (out.result == not_checked)
          out.found = place + row.empty;
        continue;
      }
      if (row.ours.count == 0)
        return {out.says, fails, place + row.empty};
      auto text = place + fixed(row.ours.mean, static_cast<int>(row.digits));
      if ((a.least && !(row.ours.mean >= *a.least))
          || (a.most && !(row.ours.mean <= *a.most)))
        return {out.says, fails, text + ", expected " + bounds_of(a)};
      if (out.result == holds)
        out.found += "; " + text;
      else
        out = {out.says, holds, text};
    }
    return out;
  }

  const experiment& x_;
  const experiment_plan& plan_;
  std::map<cell_selector, std::vector<const cell_run*>> runs_;
  std::map<cell_selector, const experiment_cell*> cells_;
  experiment_table out_;
};

std::string word_of(checked_assertion::outcome x) {
  using enum checked_assertion::outcome;
  return x == holds ? "holds" : x == fails ? "FAILS" : "not checked";
}

std::string number_or_dash(std::optional<double> x, size_t digits) {
  return x ? fixed(*x, static_cast<int>(digits)) : "-";
}

std::vector<std::string> coordinates(const experiment_plan& plan,
                                     const cell_selector& at) {
  std::vector<std::string> out;
  for (auto& axis : plan.axes) {
    auto i = at.find(axis);
    out.push_back(i == at.end() ? "-" : i->second);
  }
  return out;
}

std::string csv_cell(const std::string& x) {
  if (x.find_first_of(",\"\n") == std::string::npos)
    return x;
  std::string out = "\"";
  for (auto c : x)
    out += c == '"' ? std::string{"\"\""} : std::string{c};
  return out + "\"";
}

} // namespace

experiment_table evaluate(const experiment& described,
                          const experiment_plan& plan,
                          std::span<const cell_run> runs) {
  return evaluation{described, plan, runs}.run();
}

table printed_table(const experiment_plan& plan,
                    const experiment_table& found) {
  table rows(1);
  rows[0].push_back("figure");
  for (auto& axis : plan.axes)
    rows[0].push_back(axis);
  rows[0].insert(rows[0].end(), {"unit", "printed", "ours", "+/- 95 %", "seeds",
                                 "printed in"});
  for (auto& row : found.rows) {
    std::vector<std::string> cells{row.figure};
    auto at = coordinates(plan, row.at);
    cells.insert(cells.end(), at.begin(), at.end());
    auto digits = static_cast<int>(row.digits);
    auto n = row.ours.count;
    cells.insert(cells.end(),
                 {row.unit, number_or_dash(row.printed, row.digits),
                  n > 0 ? fixed(row.ours.mean, digits) : "(empty)",
                  n > 1 ? fixed(row.ours.half_width, digits) : "-",
                  std::to_string(n), row.place});
    rows.push_back(std::move(cells));
  }
  return rows;
}

std::string csv_text(const experiment_plan& plan,
                     const experiment_table& found) {
  auto out = "figure,"
             + joined(plan.axes, ",", [](auto& y) { return csv_cell(y); })
             + ",unit,printed,ours,half_width,seeds,empty,printed_in\n";
  for (auto& row : found.rows) {
    std::vector<std::string> cells{row.figure};
    auto at = coordinates(plan, row.at);
    cells.insert(cells.end(), at.begin(), at.end());
    auto n = row.ours.count;
    cells.insert(cells.end(),
                 {row.unit, row.printed ? format_number(*row.printed) : "",
                  n > 0 ? format_number(row.ours.mean) : "",
                  n > 1 ? format_number(row.ours.half_width) : "",
                  std::to_string(n), row.empty, row.place});
    out += joined(cells, ",", [](auto& y) { return csv_cell(y); }) + "\n";
  }
  return out;
}

json table_json(const experiment& described, const experiment_plan& plan,
                const experiment_table& found) {
  auto number = [](bool there, double y) { return there ? json(y) : json{}; };
  json out;
  out["experiment"] = described.name;
  out["figure"] = described.figure;
  out["rows"] = json::array();
  for (auto& row : found.rows) {
    json at = json::object();
    for (auto& axis : plan.axes)
      if (auto i = row.at.find(axis); i != row.at.end())
        at[axis] = i->second;
    out["rows"].push_back(
      {{"figure", row.figure},
       {"at", at},
       {"unit", row.unit},
       {"printed", number(row.printed.has_value(), row.printed.value_or(0))},
       {"printed_in", row.place},
       {"ours", number(row.ours.count > 0, row.ours.mean)},
       {"half_width", number(row.ours.count > 1, row.ours.half_width)},
       {"seeds", row.ours.count},
       {"empty", row.empty}});
  }
  out["assertions"] = json::array();
  for (auto& a : found.assertions)
    out["assertions"].push_back(
      {{"says", a.says}, {"result", word_of(a.result)}, {"found", a.found}});
  out["choices"] = to_json(described.choices);
  return out;
}

std::string notes_text(const experiment& described, const experiment_plan& plan,
                       const experiment_table& found) {
  std::string out;
  std::set<std::string> told;
  for (auto& row : found.rows)
    if (row.ours.count == 0)
      if (auto line = name_of_cell(plan, row.at) + ": " + row.empty;
          told.insert(line).second)
        out += "empty        " + line + "\n";
  for (auto& a : found.assertions) {
    auto word = word_of(a.result);
    word.resize(13, ' ');
    out += word + a.says + " (" + a.found + ")\n";
  }
  for (auto& c : described.choices)
    out += "choice       " + c.open + ": " + c.choice
           + (c.why.empty() ? "" : " (" + c.why + ")") + "\n";
  return out;
}

} // namespace millrace
