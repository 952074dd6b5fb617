// SPDX-License-Identifier: Apache-2.0
#include "millrace/decision_file.hpp"

#include "runtime/bytes.hpp"
#include "transport/codec.hpp"

namespace millrace {

namespace {

constexpr size_t largest_file = size_t{1} << 30;

} // namespace

result<void> write_decisions(const std::string& path,
                             const decision_records& records) {
  encoder out{timestamp{}, nullptr};
  out.put(records);
  auto body = out.take_body();
  return write_file(path, body.view());
}

result<decision_records> read_decisions(const std::string& path) {
  auto text = read_file(path, largest_file);
  if (!text)
    return text.failure();
  decode_context ctx;
  auto out = decode<decision_records>(std::as_bytes(std::span{*text}), ctx);
  if (!out)
    return error{ec::bad_request,
                 path
                   + ": expected recorded decisions, as 'actor-shell record'"
                     " writes them: "
                   + out.failure().text,
                 {}};
  return out;
}

} // namespace millrace
