/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MILLRACE_GPU_KERNEL_H
#define MILLRACE_GPU_KERNEL_H

#include <stdint.h>

/* A kernel that a GPU has run. */
typedef struct millrace_kernel {
  const char* name;
  uint64_t start_ns, end_ns; /* from a common origin */
  uint32_t grid[3], block[3];
  uint32_t registers; /* per thread */
  uint64_t static_shared, dynamic_shared;
  uint32_t resident; /* blocks that fit on a multiprocessor; 0: unknown */
} millrace_kernel;

#endif
