// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/named_numbers.hpp"

#include <cmath>
#include <sstream>

#include "runtime/text.hpp"

namespace millrace {

result<std::map<std::string, double>>
parse_named_numbers(const std::string& option, const std::string& text) {
  std::map<std::string, double> out;
  if (text.empty())
    return out;
  for (auto item : split(text, ';')) {
    std::istringstream words{std::string{item}};
    std::string name, number, more;
    words >> name >> number;
    auto value = number_in<double>(number);
    if (!value || !(*value > 0) || !std::isfinite(*value) || words >> more
        || !out.emplace(name, *value).second)
      return error{ec::bad_request,
                   option
                     + ": expected each name once, with a number above 0 and ;"
                       " between them ('NAME 3; OTHER 0.5'), found "
                     + shown(item),
                   {}};
  }
  return out;
}

result<std::map<std::string, double>> parse_prices(const std::string& text) {
  auto out = parse_named_numbers("prices", text);
  if (out && out->empty())
    return error{ec::bad_request,
                 "prices: expected the price of at least one kind of device"
                 " ('m60 0.75; v100 3.06'), found ''",
                 {}};
  return out;
}

} // namespace millrace
