// SPDX-License-Identifier: Apache-2.0
#include "transport/access.hpp"

#include <algorithm>
#include <array>

namespace millrace {

namespace {

constexpr std::array client_messages{std::string_view{"infer"},
                                     std::string_view{"cancel"},
                                     std::string_view{"describe_models"}};

constexpr std::array operator_messages{
  std::string_view{"get_members"}, std::string_view{"get_status"},
  std::string_view{"get_load"},    std::string_view{"get_models"},
  std::string_view{"set_model"},   std::string_view{"forget_model"},
  std::string_view{"drain"}};

} // namespace

bool may_say(role who, std::string_view type) {
  auto in = [&](auto& list) {
    return std::find(list.begin(), list.end(), type) != list.end();
  };
  switch (who) {
  case role::client:
    return in(client_messages);
  case role::operating:
    return in(operator_messages);
  case role::node: // what clients say, only gateways hear
    return !in(client_messages);
  }
  return false;
}

} // namespace millrace
