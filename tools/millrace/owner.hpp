// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

namespace millrace {

/// Root acts for the owner of a folder from here on: the user that nodes run as
/// must be able to read what is written into it, and nobody else may. False,
/// with errno, when that cannot be.
inline bool act_for_owner(int folder) {
  struct stat info;
  return ::geteuid() != 0
         || (::fstat(folder, &info) == 0 && ::setegid(info.st_gid) == 0
             && ::seteuid(info.st_uid) == 0);
}

} // namespace millrace
