// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Reads and writes declared records as YAML. A read error has the file, line
/// and key, and the expected and found value. Unknown keys are refused, with
/// the nearest known one. Includes yaml-cpp: for .cpp files of loaders only.

#include <algorithm>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include "runtime/fields.hpp"
#include "runtime/limits.hpp"
#include "runtime/nearest.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "runtime/yaml_fill.hpp"

namespace millrace {

/// Reads records from one YAML document; stops at the first error.
class yaml_reader {
public:
  /// Returns the "KEY=VALUE" texts of the preset with a name.
  using preset_reader =
    std::function<result<std::vector<std::string>>(const std::string& name)>;

  /// Errors name the document by `file`.
  explicit yaml_reader(std::string file) : file_(std::move(file)) {}

  /// Parses the text and reads it into target; missing keys keep their value in
  /// target. Each override, "a.b[0].c=VALUE", first replaces a value of the
  /// document. If the document has the key `preset`, the values of this preset
  /// apply where the document has none. In preset keys "[]" stands for each
  /// element of a list; a value for a missing list is skipped. Errors:
  /// bad_config "FILE:LINE: KEY: expected and found".
  template <declared T>
  result<void> read(const std::string& text, T& target,
                    const std::vector<std::string>& overrides = {},
                    const preset_reader& preset = {}) {
    room_ = 2 * text.size() + room_for_aliases;
    try {
      auto node = YAML::Load(text);
      for (auto& o : overrides)
        try_replace(node, o);
      if (!error_ && preset && node.IsMap() && node["preset"])
        fill_in_preset(node, preset);
      if (!error_)
        value(node, target);
    } catch (const YAML::DeepRecursion& e) {
      fail_at(e.mark, "is nested too deeply");
    } catch (const YAML::Exception& e) {
      fail_at(e.mark, std::string{"is not YAML: "} + e.msg);
    }
    if (error_)
      return *error_;
    return {};
  }

  /// The prefix "FILE:LINE: KEY: " for errors of later checks; without the line
  /// when the document lacks the key.
  std::string where(const std::string& key) const {
    auto i = lines_.find(key);
    if (is_in(preset_keys_, key))
      return "preset " + preset_ + ": " + key + ": ";
    if (was_overridden(key) || (i != lines_.end() && i->second == no_line))
      return "--set " + key + ": ";
    auto line = i == lines_.end() ? "" : ":" + std::to_string(i->second);
    return file_ + line + ": " + key + ": ";
  }

  /// Whether the document or an override has this key.
  bool has(const std::string& key) const { return lines_.contains(key); }

private:
  /// Line number of values from overrides.
  static constexpr int no_line = 0;

  /// Aliases can repeat values without end. This is the limit of values plus
  /// bytes of values, beyond twice the size of the text.
  static constexpr size_t room_for_aliases = 1u << 20;

  void try_replace(const YAML::Node& root, const std::string& assignment) {
    try {
      replace(root, assignment);
    } catch (const YAML::Exception& e) {
      error_ = error{ec::bad_config,
                     "--set " + shown(assignment, 80)
                       + ": expected the path of an option and its value, such"
                         " as link.beat=50ms: "
                       + e.msg,
                     {}};
    }
  }

  static YAML::Node element(const YAML::Node& list, const std::string& step,
                            const std::string& assignment) {
    auto n = number_in<size_t>(step);
    if (!n || !list.IsSequence() || *n >= list.size())
      throw YAML::Exception(YAML::Mark::null_mark(),
                            "there is no [" + step + "] in " + assignment);
    return list[*n];
  }

  /// Sets the value at the path of "a.b[0].c=VALUE".
  void replace(YAML::Node root, const std::string& assignment) {
    auto equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      error_ = error{ec::bad_config,
                     "--set: expected KEY=VALUE, found " + shown(assignment)};
      return;
    }
    auto path = assignment.substr(0, equals);
    auto at = root;
    for (size_t i = 0; i < path.size();) {
      auto in_list = path[i] == '[';
      auto end = std::min(path.size(), path.find_first_of(".[", i + 1));
      auto step = path.substr(i + in_list, end - i - 2 * in_list);
      if (in_list)
        at.reset(element(at, step, assignment));
      else
        at.reset(at[step]);
      i = end + (end < path.size() && path[end] == '.');
    }
    at = YAML::Load(assignment.substr(equals + 1));
    overridden_.push_back(path);
  }

  /// Inserts the preset's values for keys that the document lacks.
  void fill_in_preset(const YAML::Node& root, const preset_reader& preset) {
    preset_ = root["preset"].Scalar();
    if (auto values = preset(preset_))
      preset_keys_ = fill_in(root, *values);
    else
      fail_at(root["preset"].Mark(), "preset: " + values.failure().text,
              "preset");
  }

  template <declared T>
  void value(const YAML::Node& node, T& target) {
    if (!expect(node, node.IsMap(), "a map"))
      return;
    std::set<std::string> seen;
    for (auto item : node) {
      if (error_)
        return;
      auto key = item.first.Scalar();
      if (!seen.insert(key).second)
        return fail_at(item.first.Mark(), shown(key) + " is there twice", key);
      read_key(item, target);
    }
  }

  template <declared T>
  void read_key(const YAML::detail::iterator_value& item, T& target) {
    auto key = item.first.Scalar();
    bool known = false;
    for_each_field(target, [&](std::string_view name, auto& member) {
      if (error_ || name != key)
        return;
      known = true;
      enter(key, item.second);
      value(item.second, member);
      if constexpr (annotated<T>)
        if (!error_)
          check_bounds(item.second, member, note_of<T>(key));
      path_.pop_back();
    });
    if (!known && !error_)
      fail_at(item.first.Mark(), unknown_key<T>(key), key);
  }

  template <annotated T>
  static note note_of(std::string_view key) {
    note out;
    size_t i = 0;
    T x;
    for_each_field(x, [&](std::string_view name, auto&) {
      if (name == key)
        out = T::notes()[i];
      ++i;
    });
    return out;
  }

  template <class M>
  void check_bounds(const YAML::Node& node, const M& value, const note& n) {
    if constexpr (limited<M>) {
      if (!within(value, n))
        expected(node, limits_text<M>(n));
    }
  }

  template <class M>
  void check_bounds(const YAML::Node& node, const std::optional<M>& value,
                    const note& n) {
    if (value)
      check_bounds(node, *value, n);
  }

  template <declared T>
  static std::string unknown_key(const std::string& key) {
    std::vector<std::string> known;
    T x;
    for_each_field(
      x, [&](std::string_view name, auto&) { known.emplace_back(name); });
    return "unknown key " + shown(key) + suggestion(key, known)
           + "; known here: " + joined(known, " ", std::identity{});
  }

  void value(const YAML::Node& node, std::string& target) {
    if (expect(node, node.IsScalar(), "a text"))
      target = node.Scalar();
  }

  void value(const YAML::Node& node, bool& target) {
    if (!expect(node, node.IsScalar(), "true or false"))
      return;
    if (node.Scalar() != "true" && node.Scalar() != "false")
      return expected(node, "true or false");
    target = node.Scalar() == "true";
  }

  template <class T>
  requires(std::integral<T> || std::floating_point<T>) void value(
    const YAML::Node& node, T& target) {
    auto what = std::integral<T> ? "a whole number" : "a number";
    if (!expect(node, node.IsScalar(), what))
      return;
    if (auto y = number_in<T>(node.Scalar()))
      target = *y;
    else
      expected(node, what);
  }

  template <named_enum T>
  void value(const YAML::Node& node, T& target) {
    auto names =
      joined(names_of(T{}), ", ", [](auto s) { return std::string{s}; });
    if (!expect(node, node.IsScalar(), "one of " + names))
      return;
    if (auto y = from_string<T>(node.Scalar()))
      target = *y;
    else
      expected(node, "one of " + names);
  }

  void value(const YAML::Node& node, microseconds& target) {
    quantity(node, target, "a duration like 20ms", parse_duration);
  }

  void value(const YAML::Node& node, byte_count& target) {
    quantity(node, target, "a size like 64MiB", parse_bytes);
  }

  void value(const YAML::Node& node, bandwidth& target) {
    quantity(node, target, "a bandwidth like 10Gbit/s", parse_bandwidth);
  }

  template <class T, class Parse>
  void quantity(const YAML::Node& node, T& target, const char* what,
                Parse parse) {
    if (!expect(node, node.IsScalar(), what))
      return;
    if (auto y = parse(node.Scalar()))
      target = *y;
    else
      fail_at(node.Mark(), y.failure().text);
  }

  template <class T>
  void value(const YAML::Node& node, std::optional<T>& target) {
    if (node.IsNull())
      target.reset();
    else
      value(node, target.emplace());
  }

  template <class T>
  void value(const YAML::Node& node, std::vector<T>& xs) {
    if (!expect(node, node.IsSequence(), "a list"))
      return;
    xs.clear();
    for (auto item : node) {
      if (error_)
        return;
      enter("[" + std::to_string(xs.size()) + "]", item);
      value(item, xs.emplace_back());
      path_.pop_back();
    }
  }

  template <class T>
  void value(const YAML::Node& node, std::map<std::string, T>& xs) {
    if (!expect(node, node.IsMap(), "a map"))
      return;
    for (auto item : node) {
      if (error_)
        return;
      auto key = item.first.Scalar();
      enter(key, item.second);
      auto [i, fresh] = xs.try_emplace(key);
      if (!fresh)
        fail_at(item.first.Mark(), "is there twice");
      else
        value(item.second, i->second);
      path_.pop_back();
    }
  }

  bool expect(const YAML::Node& node, bool fits, const std::string& what) {
    if (!fits && !error_)
      expected(node, what);
    return fits && !error_;
  }

  void expected(const YAML::Node& node, const std::string& what) {
    auto found = node.IsScalar()     ? shown(node.Scalar())
                 : node.IsMap()      ? std::string{"a map"}
                 : node.IsSequence() ? std::string{"a list"}
                                     : std::string{"nothing"};
    fail_at(node.Mark(), "expected " + what + ", found " + found);
  }

  void fail_at(const YAML::Mark& mark, std::string why,
               const std::string& key = {}) {
    auto path = joined_path();
    auto blamed = path + (path.empty() || key.empty() ? "" : ".") + key;
    auto line = mark.line + 1;
    auto replaced =
      was_overridden(blamed) || (line == no_line && !overridden_.empty());
    auto at = is_in(preset_keys_, blamed) ? "preset " + preset_ + ": "
              : replaced                  ? std::string{"--set "}
              : line == no_line ? file_ + ": " // the document is empty
                                : file_ + ":" + std::to_string(line) + ": ";
    if (!path_.empty())
      at += path + ": ";
    error_ = error{ec::bad_config, at + std::move(why), {}};
  }

  bool was_overridden(const std::string& key) const {
    return is_in(overridden_, key);
  }

  /// Whether a key is in a list of keys, or below one in the list.
  static bool is_in(const std::vector<std::string>& some,
                    const std::string& key) {
    return std::any_of(some.begin(), some.end(), [&](auto& o) {
      return key.starts_with(o)
             && (key.size() == o.size() || key[o.size()] == '.'
                 || key[o.size()] == '[');
    });
  }

  void enter(std::string key, const YAML::Node& node) {
    path_.push_back(std::move(key));
    auto size = 1 + (node.IsScalar() ? node.Scalar().size() : 0);
    if (size > room_)
      return fail_at(node.Mark(), "aliases repeat more than 1 MiB");
    room_ -= size;
    lines_[joined_path()] = node.Mark().line + 1;
  }

  std::string joined_path() const {
    std::string key;
    for (auto& x : path_)
      key += (key.empty() || x.front() == '[' ? "" : ".") + x;
    return key;
  }

  std::string file_;
  std::vector<std::string> path_;
  std::map<std::string, int> lines_;
  std::vector<std::string> overridden_;
  std::string preset_;
  std::vector<std::string> preset_keys_; ///< keys with values from the preset
  std::optional<error> error_;
  size_t room_ = 0;
};

/// Writes a declared record; members with their default value are omitted.
class yaml_writer {
public:
  template <declared T>
  static std::string write(const T& content) {
    YAML::Emitter out;
    value(out, content);
    return std::string{out.c_str()} + "\n";
  }

private:
  template <declared T>
  static void value(YAML::Emitter& out, const T& content) {
    out << YAML::BeginMap;
    const T plain{};
    T::with_fields([&](auto... fs) {
      (member(out, fs.name, content.*fs.member, plain.*fs.member), ...);
    });
    out << YAML::EndMap;
  }

  template <class M>
  static void member(YAML::Emitter& out, std::string_view name,
                     const M& content, const M& plain) {
    if (content == plain)
      return;
    out << YAML::Key << std::string{name} << YAML::Value;
    value(out, content);
  }

  static void value(YAML::Emitter& out, const std::string& content) {
    out << YAML::DoubleQuoted << content;
    out << YAML::Auto;
  }
  static void value(YAML::Emitter& out, bool content) { out << content; }
  template <class T>
  requires(std::integral<T> || std::floating_point<T>) static void value(
    YAML::Emitter& out, T content) {
    if constexpr (std::floating_point<T>)
      out << real(format_number(content));
    else
      out << content;
  }
  /// YAML 1.1 reads 7e-05 as text and 7.0e-05 as a number.
  static std::string real(std::string number) {
    if (auto e = number.find('e');
        e != number.npos && number.find('.') == number.npos)
      number.insert(e, ".0");
    return number;
  }
  template <named_enum T>
  static void value(YAML::Emitter& out, T content) {
    out << std::string{to_string(content)};
  }
  static void value(YAML::Emitter& out, microseconds content) {
    out << std::to_string(content.count()) + "us";
  }
  static void value(YAML::Emitter& out, byte_count content) {
    out << content.value;
  }
  static void value(YAML::Emitter& out, bandwidth content) {
    out << format_number(content.bytes_per_second) + "B/s";
  }
  template <class T>
  static void value(YAML::Emitter& out, const std::optional<T>& content) {
    if (content)
      value(out, *content);
    else
      out << YAML::Null;
  }
  template <class T>
  static void value(YAML::Emitter& out, const std::vector<T>& xs) {
    if constexpr (declared<T>)
      out << YAML::BeginSeq;
    else
      out << YAML::Flow << YAML::BeginSeq;
    for (auto& x : xs)
      value(out, x);
    out << YAML::EndSeq;
  }
  template <class T>
  static void value(YAML::Emitter& out, const std::map<std::string, T>& xs) {
    out << YAML::BeginMap;
    for (auto& [k, x] : xs) {
      out << YAML::Key << k << YAML::Value;
      value(out, x);
    }
    out << YAML::EndMap;
  }
};

} // namespace millrace
