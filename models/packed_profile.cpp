// SPDX-License-Identifier: Apache-2.0
#include "models/packed_profile.hpp"

#include <cmath>

#include "runtime/text.hpp"

namespace millrace {

namespace {

using named_values = std::map<std::string, double>;

/// Collects names; returns the index of each, in order of first use.
class name_list {
public:
  explicit name_list(std::vector<std::string>& out) : out_(out) {}

  double operator()(const std::string& x) {
    auto [i, is_new] = places_.try_emplace(x, out_.size());
    if (is_new)
      out_.push_back(x);
    return static_cast<double>(i->second);
  }

private:
  std::map<std::string, size_t> places_;
  std::vector<std::string>& out_;
};

/// Reads numbers in order, as long as they are valid.
class point_reader {
public:
  explicit point_reader(const packed_profile& x) : x_(x) {}

  bool at_end() const { return next_ == x_.numbers.size(); }

  bool read(profile_point& out) {
    return read_name(out.device) && read(out.batch) && read(out.dimensions)
           && read(out.metrics);
  }

private:
  bool read(double& out) {
    if (at_end())
      return false;
    out = x_.numbers[next_++];
    return true;
  }

  /// Reads a whole number below `end`.
  bool read(size_t& out, size_t end) {
    double x = 0;
    if (!read(x) || !(x >= 0 && x < static_cast<double>(end))
        || x != std::floor(x))
      return false;
    out = static_cast<size_t>(x);
    return true;
  }

  bool read_name(std::string& out) {
    size_t place = 0;
    if (!read(place, x_.names.size()))
      return false;
    out = x_.names[place];
    return true;
  }

  bool read(named_values& out) {
    size_t n = 0;
    if (!read(n, x_.numbers.size()))
      return false;
    for (std::string name; n > 0; --n)
      if (!read_name(name) || !read(out[name]))
        return false;
    return true;
  }

  const packed_profile& x_;
  size_t next_ = 0;
};

} // namespace

packed_profile pack(const profile& measured) {
  packed_profile out{measured.model, measured.layers, measured.sources, {}, {}};
  name_list place_of{out.names};
  auto& to = out.numbers;
  auto add = [&](const named_values& xs) {
    to.push_back(static_cast<double>(xs.size()));
    for (auto& [name, value] : xs) {
      to.push_back(place_of(name));
      to.push_back(value);
    }
  };
  for (auto& p : measured.points) {
    to.push_back(place_of(p.device));
    to.push_back(p.batch);
    add(p.dimensions);
    add(p.metrics);
  }
  return out;
}

result<profile> unpack(const packed_profile& packed) {
  constexpr size_t longest_name = 100;    // each point has its own copy
  constexpr size_t most_numbers = 65'536; // upper limit of a list in a message
  auto refuse = [&](const std::string& why) {
    return error{
      ec::bad_request, "the profile of " + shown(packed.model) + why, {}};
  };
  std::vector<std::string_view> names{packed.names.begin(), packed.names.end()};
  for (auto& [kind, source] : packed.sources)
    names.insert(names.end(), {kind, source});
  for (auto name : names)
    if (name.size() > longest_name)
      return refuse(" has a name of " + std::to_string(name.size())
                    + " bytes, expected at most "
                    + std::to_string(longest_name));
  if (packed.numbers.size() > most_numbers)
    return refuse(" has " + std::to_string(packed.numbers.size())
                  + " numbers in all, expected at most "
                  + std::to_string(most_numbers));
  profile out{packed.model, {}, packed.layers, packed.sources};
  point_reader from{packed};
  while (!from.at_end())
    if (!from.read(out.points.emplace_back()))
      return refuse(" is no profile from points["
                    + std::to_string(out.points.size() - 1) + "] on");
  if (auto fine = check_profile(out); !fine)
    return fine.failure();
  return out;
}

} // namespace millrace
