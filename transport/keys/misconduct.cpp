// SPDX-License-Identifier: Apache-2.0
#include "transport/keys/misconduct.hpp"

namespace millrace {

bool misconduct::offends(std::string_view name, timestamp now) {
  auto i = records_.find(name);
  if (i == records_.end())
    i = records_.emplace(std::string{name}, record{}).first;
  auto& x = i->second;
  if (now < x.until)
    return false;
  x.last[x.count++ % allowed] = now;
  auto first = x.last[x.count % allowed];
  if (x.count < allowed || now - first > window)
    return false;
  x.count = 0;
  x.until = now + sentence;
  return true;
}

bool misconduct::suspended(std::string_view name, timestamp now) const {
  auto i = records_.find(name);
  return i != records_.end() && now < i->second.until;
}

} // namespace millrace
