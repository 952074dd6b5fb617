// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/disk.hpp"

namespace millrace {

result<void> write_whole(disk& where, const std::string& name,
                         std::string_view bytes) {
  auto done = where.create(name);
  if (done)
    done = where.append(name, bytes);
  if (done)
    done = where.sync(name);
  if (!done)
    static_cast<void>(where.create(name));
  return done;
}

} // namespace millrace
