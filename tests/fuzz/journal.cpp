// SPDX-License-Identifier: Apache-2.0

/// \file
/// A node's journals: facts, and the audit log. Their valid prefix is also a
/// journal.

#include "runtime/store/audit_journal.hpp"
#include "runtime/store/facts.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/support/allocation_meter.hpp"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text{reinterpret_cast<const char*>(data), size};
  {
    test::allocation_meter meter;
    auto content = read_journal(text);
    auto peak = meter.peak();
    fuzz::require(peak <= fuzz::memory_allowed(size),
                  "P11: decoding holds at most 4 x the input and 64 KiB");
    auto prefix = read_journal(text.substr(0, content.end.bytes));
    fuzz::require(!prefix.damage && prefix.end.last == content.end.last
                    && prefix.records == content.records,
                  "a valid prefix is a journal");
  }
  if (auto x = read_facts(text, "j"))
    fuzz::require(x->end.bytes <= size, "a journal ends in its file");
  std::vector<std::string> lines;
  static_cast<void>(read_audit({std::string{text}}, lines));
  return 0;
}
