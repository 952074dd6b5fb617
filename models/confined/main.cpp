// SPDX-License-Identifier: Apache-2.0

/// \file
/// millrace-executor: the program that nodes start to run untrusted models. It
/// links neither CAF nor ZeroMQ, so that it forks safely.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>

#include "models/confined/inside.hpp"

int main(int argc, char** argv) {
  auto with_gpus = argc == 3 && std::strcmp(argv[2], "gpus") == 0;
  auto fd = argc == 2 || with_gpus ? std::atoi(argv[1]) : -1;
  int type = 0;
  socklen_t size = sizeof type;
  if (fd < 3 || ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::fputs("millrace-executor: has to be started by a node, which passes"
               " a connection\n",
               stderr);
    return 2;
  }
  return millrace::confined::be_template(millrace::file_descriptor{fd},
                                         with_gpus);
}
