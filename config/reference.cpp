// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>

#include "config/experiment.hpp"
#include "config/scenario.hpp"
#include "runtime/limits.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Walks the declarations and writes a table row per option.
class reference_writer {
public:
  template <annotated T>
  void record(const std::string& path, const T& plain = {}) {
    size_t i = 0;
    for_each_field(plain, [&](std::string_view name, auto& member) {
      auto at =
        path.empty() ? std::string{name} : path + "." + std::string{name};
      option(at, member, T::notes()[i++]);
    });
  }

  std::string take() {
    return "| option | type | default | meaning |\n|---|---|---|---|\n"
           + std::move(rows_);
  }

private:
  template <class M>
  void option(const std::string& path, const M& plain, const note& n) {
    row(path, type_of(plain), default_of(plain), n, plain);
    if constexpr (annotated<M>)
      record(path, plain);
  }

  template <class M>
  void option(const std::string& path, const std::vector<M>& xs,
              const note& n) {
    row(path, "list of " + type_of(M{}), xs.empty() ? "" : "[...]", n, xs);
    if constexpr (annotated<M>)
      record<M>(path + "[]");
  }

  template <class M>
  void option(const std::string& path, const std::map<std::string, M>& xs,
              const note& n) {
    row(path, "map of names to " + type_of(M{}), "", n, xs);
    if constexpr (annotated<M>)
      record<M>(path + ".NAME");
  }

  template <class M>
  void option(const std::string& path, const std::optional<M>&, const note& n) {
    row(path, type_of(M{}), "", n, M{});
  }

  template <class M>
  void row(const std::string& path, const std::string& type,
           const std::string& value, const note& n, const M&) {
    rows_ += "| `" + path + "` | " + type + " | "
             + (value.empty() ? "" : "`" + value + "`") + " | "
             + std::string{n.says};
    if constexpr (limited<M>)
      if (auto limits = limits_text<M>(n); !limits.empty())
        rows_ += " (" + limits + ")";
    rows_ += " |\n";
  }

  template <class M>
  static std::string type_of(const M&) {
    if constexpr (annotated<M>)
      return "options";
    else if constexpr (named_enum<M>)
      return joined(names_of(M{}), ", ",
                    [](auto s) { return "`" + std::string{s} + "`"; });
    else if constexpr (std::is_same_v<M, microseconds>)
      return "duration";
    else if constexpr (std::is_same_v<M, byte_count>)
      return "size";
    else if constexpr (std::is_same_v<M, bandwidth>)
      return "bandwidth";
    else if constexpr (std::is_same_v<M, bool>)
      return "`true` or `false`";
    else if constexpr (std::is_integral_v<M>)
      return "whole number";
    else if constexpr (std::is_floating_point_v<M>)
      return "number";
    else if constexpr (requires { typename M::mapped_type; })
      return "map of names to " + type_of(typename M::mapped_type{});
    else
      return "text";
  }

  template <class M>
  static std::string default_of(const M& x) {
    if constexpr (annotated<M>)
      return "";
    else if constexpr (named_enum<M>)
      return std::string{to_string(x)};
    else if constexpr (std::is_same_v<M, microseconds>)
      return format_duration(x);
    else if constexpr (std::is_same_v<M, byte_count>)
      return format_bytes(x.value);
    else if constexpr (std::is_same_v<M, bandwidth>)
      return format_bandwidth(x);
    else if constexpr (std::is_same_v<M, bool>)
      return x ? "true" : "false";
    else if constexpr (std::is_arithmetic_v<M>)
      return format_number(static_cast<double>(x));
    else
      return x;
  }

  std::string rows_;
};

} // namespace

std::string scenario_reference() {
  reference_writer out;
  const auto plain = std::make_unique<const scenario>(); // large
  out.record("", *plain);
  return out.take();
}

std::string experiment_reference() {
  reference_writer out;
  out.record("", experiment{});
  return out.take();
}

std::string config_reference() {
  reference_writer out;
  const auto plain = std::make_unique<const cluster_config>();
  out.record("", *plain);
  return out.take();
}

} // namespace millrace
