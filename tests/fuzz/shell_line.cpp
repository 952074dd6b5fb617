// SPDX-License-Identifier: Apache-2.0

/// \file
/// An input line of actor-shell: its words, the command, and its completion.

#include "shell/completion.hpp"
#include "shell/words.hpp"
#include "tests/fuzz/frames.hpp"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view line{reinterpret_cast<const char*>(data), size};
  auto words = words_of(line);
  if (!words)
    return 0;
  size_t letters = 0;
  std::string quoted;
  for (auto& word : *words) {
    letters += word.size();
    quoted += " '";
    for (auto c : word)
      quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
    quoted += "'";
  }
  fuzz::require(letters <= size, "words are made of the line's characters");
  if (auto again = words_of(quoted))
    fuzz::require(*again == *words, "words in quotes are the same words");
  static_cast<void>(kind_of_next(*words));
  if (!words->empty())
    if (auto x = command_of(*words))
      fuzz::require(words->size() - 1 >= (*x)->least
                      && words->size() - 1 <= (*x)->most,
                    "a command gets as many arguments as it takes");
  return 0;
}
