// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/frames.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace millrace::fuzz {

std::vector<shared_bytes> split_frames(const_bytes input) {
  std::vector<shared_bytes> out;
  while (input.size() >= 2) {
    auto n = std::to_integer<size_t>(input[0])
             + 256 * std::to_integer<size_t>(input[1]);
    input = input.subspan(2);
    n = std::min(n, input.size());
    out.push_back(shared_bytes::copy_of(input.first(n)));
    input = input.subspan(n);
  }
  return out;
}

std::string join_frames(const std::vector<shared_bytes>& frames) {
  std::string out;
  for (auto& x : frames) {
    auto n = std::min<size_t>(x.size(), 65'535);
    out += static_cast<char>(n % 256);
    out += static_cast<char>(n / 256);
    out.append(reinterpret_cast<const char*>(x.data()), n);
  }
  return out;
}

timestamp now() {
  return timestamp{} + std::chrono::hours{1};
}

std::optional<wire_message> receive(const std::vector<shared_bytes>& frames) {
  if (frames.empty())
    return std::nullopt;
  auto opened = open_frame(frames[0].view(), now());
  if (!opened)
    return std::nullopt;
  wire_message out{std::move(opened->head), {opened->body, nullptr}, {}};
  out.attachments.assign(frames.begin() + 1, frames.end());
  return out;
}

void require(bool holds, const char* rule) {
  if (holds)
    return;
  std::fprintf(stderr, "broken: %s\n", rule);
  std::abort();
}

} // namespace millrace::fuzz
