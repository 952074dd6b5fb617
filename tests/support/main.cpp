// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#ifdef MILLRACE_SANITIZED_ADDRESS
/// AddressSanitizer sometimes computes a wrong address for the thread-local
/// storage of a library. LeakSanitizer then crashes at the end of a passed test
/// (github.com/google/sanitizers/issues/1322).
extern "C" const char* __asan_default_options() {
  return "intercept_tls_get_addr=0";
}
#endif
