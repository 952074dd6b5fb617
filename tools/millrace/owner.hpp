// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

namespace millrace {

/// If root runs the program, acts as the folder's owner from here on: the user
/// that nodes run as must be able to read new files, and no other user may.
/// False, with errno, on failure.
inline bool act_for_owner(int folder) {
  struct stat info;
  return ::geteuid() != 0
         || (::fstat(folder, &info) == 0 && ::setegid(info.st_gid) == 0
             && ::seteuid(info.st_uid) == 0);
}

} // namespace millrace
