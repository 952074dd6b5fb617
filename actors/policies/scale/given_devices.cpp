// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "actors/policies/scale/given.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

error not_a_device(const std::string& text, const std::string& expected) {
  return {ec::bad_request,
          "devices: expected " + expected + ", found " + shown(text),
          {}};
}

result<device_plan> parse_device(const std::string& text) {
  std::istringstream words{text};
  device_plan out;
  std::string mode, word, value;
  words >> out.device >> mode;
  auto found = from_string<sharing_mode>(mode);
  if (!found)
    return not_a_device(text, "a device and a mode ("
                                + joined(names_of(sharing_mode{}), ", ",
                                         [](auto x) { return std::string{x}; })
                                + ")");
  out.sharing.mode = *found;
  while (words >> word) {
    constexpr uint32_t at_once_max = 256;
    words >> value;
    auto n = number_in<uint32_t>(value);
    if (!n || *n == 0 || *n > at_once_max
        || (word != "at-once" && word != "per-replica"))
      return not_a_device(text, "'at-once N' or 'per-replica N' (1 to 256)");
    (word == "at-once" ? out.sharing.at_once : out.sharing.per_replica) = *n;
    value.clear();
  }
  auto limits = *found == sharing_mode::wave || *found == sharing_mode::cap;
  if (out.sharing.at_once > 0 && !limits)
    return not_a_device(text,
                        "no at-once with " + mode + " (only with wave or cap)");
  return out;
}

} // namespace

result<std::vector<device_plan>> parse_shared(const std::string& text) {
  std::vector<device_plan> out;
  std::istringstream items{text};
  for (std::string item; std::getline(items, item, ';');) {
    auto x = parse_device(item);
    if (!x)
      return x.failure();
    for (auto& other : out)
      if (other.device == x->device)
        return not_a_device(item, "each device once");
    out.push_back(std::move(*x));
  }
  return out;
}

} // namespace millrace
