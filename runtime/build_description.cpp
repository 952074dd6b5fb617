// SPDX-License-Identifier: Apache-2.0
#include "runtime/build_description.hpp"

namespace millrace {

build_description this_build() {
  return {MILLRACE_VERSION, MILLRACE_COMMIT, MILLRACE_LIBTORCH, MILLRACE_CUDA};
}

} // namespace millrace
