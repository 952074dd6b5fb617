// SPDX-License-Identifier: Apache-2.0
#include "config/experiment.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <set>

#include "config/checker.hpp"
#include "runtime/bytes.hpp"
#include "runtime/nearest.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

constexpr size_t experiment_bytes_max = 4u << 20;

bool is_variable(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Checks names and references between the parts of an experiment.
class experiment_checker : private config_checker {
public:
  experiment_checker(const yaml_reader& reader, experiment& x,
                     std::filesystem::path base)
    : config_checker(reader),
      x_(x),
      base_(std::move(base)) {}

  result<void> run() {
    named("name", "experiment", x_.name);
    check_scenario();
    check_axes();
    check_changes(mode_axis, "modes", x_.modes);
    check_options();
    check_quick("quick_modes", mode_axis, x_.quick_modes);
    check_measures();
    check_ratios();
    check_figures();
    check_assertions();
    for (size_t i = 0; i < x_.without.size(); ++i)
      check_selector(at("without", i) + ".at", x_.without[i].at, false);
    return outcome();
  }

private:
  void check_scenario() {
    auto path = (base_ / x_.scenario).lexically_normal();
    if (x_.scenario.empty() || !std::filesystem::is_regular_file(path))
      return refuse("scenario", "there is no file " + path.string());
    x_.scenario = path.string();
  }

  void check_axes() {
    for (size_t i = 0; i < x_.axes.size(); ++i) {
      auto& axis = x_.axes[i];
      auto key = at("axes", i);
      named(key + ".name", "axis", axis.name);
      if (axis.name == mode_axis || values_.contains(axis.name))
        refuse(key + ".name", "axis " + shown(axis.name) + " is there twice");
      check_changes(axis.name, key + ".values", axis.values);
      check_quick(key + ".quick", axis.name, axis.quick);
      for (size_t k = 0; k < axis.values.size(); ++k)
        if (axis.key.empty() && axis.values[k].set.empty()
            && axis.values.size() > 1)
          refuse(at(key + ".values", k),
                 "changes nothing (expected 'set', or a 'key' of the axis)");
    }
  }

  /// Checks the modes, or the values of an axis: at least one, with unique
  /// names.
  void check_changes(const std::string& axis, const std::string& key,
                     const std::vector<scenario_change>& changes) {
    if (changes.empty())
      refuse(key, "is empty (expected at least one)");
    auto& known = values_[axis];
    for (size_t i = 0; i < changes.size(); ++i) {
      auto& change = changes[i];
      auto place = at(key, i);
      if (change.name.empty() || change.name == mean_value
          || change.name == geometric_value)
        refuse(place + ".name", "expected a name other than mean and geometric,"
                                " found "
                                  + shown(change.name));
      if (std::count(known.begin(), known.end(), change.name) != 0)
        refuse(place + ".name", shown(change.name) + " is there twice");
      known.push_back(change.name);
      for (size_t k = 0; k < change.set.size(); ++k)
        if (auto equals = change.set[k].find('=');
            equals == std::string::npos || equals == 0)
          refuse(at(place + ".set", k),
                 "expected KEY=VALUE, found " + shown(change.set[k]));
      for (auto& [variable, text] : change.let)
        if (!std::all_of(variable.begin(), variable.end(), is_variable))
          refuse(place + ".let",
                 "expected letters, digits and _, found " + shown(variable));
    }
    note_variables(changes);
  }

  void check_options() {
    auto check = [&](const std::string& key,
                     const std::vector<scenario_change>& changes) {
      for (size_t i = 0; i < changes.size(); ++i)
        for (size_t k = 0; k < changes[i].set.size(); ++k)
          check_text(at(at(key, i) + ".set", k), changes[i].set[k]);
    };
    for (size_t i = 0; i < x_.axes.size(); ++i)
      check(at("axes", i) + ".values", x_.axes[i].values);
    check("modes", x_.modes);
  }

  /// Records the variables that each value of one axis, or each mode, defines.
  void note_variables(const std::vector<scenario_change>& changes) {
    if (changes.empty())
      return;
    for (auto& [variable, text] : changes.front().let) {
      auto& name = variable;
      if (std::all_of(changes.begin(), changes.end(),
                      [&](auto& change) { return change.let.contains(name); }))
        variables_.emplace(variable, variable);
    }
  }

  void check_quick(const std::string& key, const std::string& axis,
                   const std::vector<std::string>& quick) {
    for (size_t i = 0; i < quick.size(); ++i)
      check_value(at(key, i), axis, quick[i], false);
  }

  void check_value(const std::string& key, const std::string& axis,
                   const std::string& value, bool means) {
    auto& known = values_[axis];
    if (std::count(known.begin(), known.end(), value) != 0
        || (means && (value == mean_value || value == geometric_value)))
      return;
    refuse(key, "there is no " + axis + " " + shown(value)
                  + suggestion(value, known) + " (expected one of "
                  + joined(known, ", ", std::identity{}) + ")");
  }

  void check_selector(const std::string& key, const cell_selector& x,
                      bool means) {
    for (auto& [axis, value] : x)
      if (!values_.contains(axis))
        refuse(key + "." + axis,
               "there is no axis " + shown(axis) + " (expected one of "
                 + joined(values_, ", ", [](auto& y) { return y.first; })
                 + ")");
      else
        check_value(key + "." + axis, axis, value, means);
  }

  void check_text(const std::string& key, const std::string& text) {
    if (!substitute(text, variables_))
      refuse(key, "has a variable that is not set ('let') by all modes or by"
                  " all values of an axis: "
                    + shown(text));
  }

  void check_over(const std::string& key, const std::string& axis) {
    if (axis.empty())
      return;
    if (!values_.contains(axis))
      refuse(key, "there is no axis " + shown(axis));
  }

  void check_measures() {
    if (x_.measures.empty())
      refuse("measures", "is empty (expected at least one)");
    for (size_t i = 0; i < x_.measures.size(); ++i) {
      auto& x = x_.measures[i];
      auto key = at("measures", i);
      new_figure(key + ".name", x.name, measures_);
      if (x.path.empty())
        refuse(key + ".path", "expected a path in summary.json");
      check_text(key + ".path", x.path);
      check_text(key + ".divide", x.divide);
      check_over(key + ".over", x.over);
    }
  }

  void new_figure(const std::string& key, const std::string& name,
                  std::vector<std::string>& known) {
    if (name.empty())
      refuse(key, "expected a name");
    if (std::count(known.begin(), known.end(), name) != 0)
      refuse(key, shown(name) + " is there twice");
    known.push_back(name);
  }

  void check_ratios() {
    for (size_t i = 0; i < x_.ratios.size(); ++i) {
      auto& x = x_.ratios[i];
      auto key = at("ratios", i);
      new_figure(key + ".name", x.name, ratios_);
      check_name_in(key + ".measure", "measure", x.measure, measures_);
      check_selector(key + ".of", x.of, false);
      check_selector(key + ".to", x.to, false);
      check_over(key + ".over", x.over);
      auto names = [](const cell_selector& y) {
        return joined(y, ", ", [](auto& z) { return z.first; });
      };
      if (x.of.empty() || names(x.of) != names(x.to))
        refuse(key, "expected 'of' and 'to' to name the same axes, found "
                      + shown(names(x.of)) + " and " + shown(names(x.to)));
      if (x.of.contains(x.over))
        refuse(key + ".over", "is an axis that 'of' fixes");
      for (size_t k = 0; k < x.equal.size(); ++k)
        check_text(at(key + ".equal", k), x.equal[k]);
    }
  }

  void check_name_in(const std::string& key, const std::string& kind,
                     const std::string& name,
                     const std::vector<std::string>& known) {
    if (std::count(known.begin(), known.end(), name) == 0)
      refuse(key, "there is no " + kind + " " + shown(name)
                    + suggestion(name, known));
  }

  /// Checks the subject of a printed figure or an assertion.
  void check_subject(const std::string& key, const std::string& measure,
                     const std::string& ratio, const cell_selector& where) {
    if (measure.empty() == ratio.empty())
      return refuse(key, "expected one of measure and ratio");
    if (!measure.empty())
      check_name_in(key + ".measure", "measure", measure, measures_);
    else
      check_name_in(key + ".ratio", "ratio", ratio, ratios_);
    check_selector(key + ".at", where, true);
  }

  void check_figures() {
    for (size_t i = 0; i < x_.printed.size(); ++i) {
      auto& x = x_.printed[i];
      check_subject(at("printed", i), x.measure, x.ratio, x.at);
      if (!given(at("printed", i) + ".value"))
        refuse(at("printed", i), "has no value");
    }
  }

  void check_assertions() {
    for (size_t i = 0; i < x_.assertions.size(); ++i) {
      auto& x = x_.assertions[i];
      auto key = at("assertions", i);
      check_subject(key, x.measure, x.ratio, x.at);
      if (!x.least && !x.most)
        refuse(key, "can never be false (expected 'least' or 'most')");
      if (x.least && x.most && *x.least > *x.most)
        refuse(key, "can never be true ('least' is above 'most')");
    }
  }

  experiment& x_;
  std::filesystem::path base_;
  std::map<std::string, std::vector<std::string>> values_; ///< by axis
  std::map<std::string, std::string> variables_;
  std::vector<std::string> measures_;
  std::vector<std::string> ratios_;
};

} // namespace

bool selects(const cell_selector& selector, const cell_selector& cell) {
  return std::all_of(selector.begin(), selector.end(), [&](auto& x) {
    auto i = cell.find(x.first);
    return i != cell.end() && i->second == x.second;
  });
}

std::optional<std::string>
substitute(const std::string& text,
           const std::map<std::string, std::string>& let) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '$') {
      out += text[i++];
      continue;
    }
    auto end = i + 1;
    while (end < text.size() && is_variable(text[end]))
      ++end;
    auto value = let.find(text.substr(i + 1, end - i - 1));
    if (value == let.end())
      return std::nullopt;
    out += value->second;
    i = end;
  }
  return out;
}

result<experiment> parse_experiment(const std::string& text,
                                    const std::string& file) {
  experiment out;
  yaml_reader reader{file};
  if (auto done = reader.read(text, out); !done)
    return done.failure();
  auto base = std::filesystem::path{file}.parent_path();
  if (auto done = experiment_checker{reader, out, base}.run(); !done)
    return done.failure();
  return out;
}

result<experiment> load_experiment(const std::string& path) {
  auto text = read_file(path, experiment_bytes_max);
  if (!text)
    return error{ec::bad_config, text.failure().text, {}};
  return parse_experiment(*text, path);
}

} // namespace millrace
