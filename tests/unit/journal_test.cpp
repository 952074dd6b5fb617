// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/store/journal.hpp"

using namespace millrace;

namespace {

const std::vector<std::string> contents{"head", "", std::string(600, 'x'),
                                        "MRJ1", "last"};

/// A journal with the offset of each record, and of its end.
struct written {
  std::string file;
  std::vector<size_t> begins;
};

written write(const std::vector<std::string>& xs) {
  written out;
  journal_end end;
  for (auto& x : xs) {
    out.begins.push_back(out.file.size());
    out.file += next_record(end, x);
  }
  out.begins.push_back(out.file.size());
  return out;
}

/// The number of records that end at or before a byte.
size_t whole_before(const written& x, size_t at) {
  size_t n = 0;
  while (n + 1 < x.begins.size() && x.begins[n + 1] <= at)
    ++n;
  return n;
}

} // namespace

TEST_CASE("journal: written records are read") {
  auto x = write(contents);
  auto y = read_journal(x.file);
  CHECK_FALSE(y.damage);
  CHECK(y.end.bytes == x.file.size());
  CHECK(std::vector<std::string>(y.records.begin(), y.records.end())
        == contents);
  // Further records can be appended.
  auto more = x.file + next_record(y.end, "more");
  CHECK(read_journal(more).records.size() == contents.size() + 1);
}

TEST_CASE("P6: each flipped bit is detected and earlier records are read") {
  auto x = write(contents);
  for (size_t at = 0; at < x.file.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto file = x.file;
      file[at] = static_cast<char>(file[at] ^ (1 << bit));
      auto y = read_journal(file);
      CAPTURE(at);
      CAPTURE(bit);
      REQUIRE(y.damage);
      auto whole = whole_before(x, at);
      REQUIRE(y.records.size() == whole);
      REQUIRE(y.damage->from == x.begins[whole]);
      // Only damage in the last record looks like a truncated write.
      REQUIRE(y.damage->torn == (whole + 1 == contents.size()));
    }
}

TEST_CASE(
  "P6: a journal truncated anywhere is read up to its last complete record") {
  auto x = write(contents);
  for (size_t n = 0; n <= x.file.size(); ++n) {
    auto y = read_journal(std::string_view{x.file}.substr(0, n));
    CAPTURE(n);
    auto whole = whole_before(x, n);
    REQUIRE(y.records.size() == whole);
    REQUIRE(y.damage.has_value() == (n != x.begins[whole]));
    if (y.damage)
      REQUIRE(y.damage->torn);
  }
}

TEST_CASE("P6: a missing or doubled or foreign record is detected") {
  auto x = write(contents);
  auto record = [&](const written& w, size_t i) {
    return w.file.substr(w.begins[i], w.begins[i + 1] - w.begins[i]);
  };
  auto other = write({"head", "", "another", "MRJ1", "last"});
  auto all = [&](std::initializer_list<std::string> records) {
    std::string out;
    for (auto& r : records)
      out += r;
    return out;
  };
  for (auto& [file, whole] : std::vector<std::pair<std::string, size_t>>{
         {all({record(x, 0), record(x, 2), record(x, 3)}), 1},
         {all({record(x, 0), record(x, 1), record(x, 1)}), 2},
         {all({record(x, 0), record(x, 1), record(x, 2), record(other, 3)}), 3},
         {all({record(x, 1), record(x, 2)}), 0}}) {
    auto y = read_journal(file);
    CHECK(y.records.size() == whole);
    REQUIRE(y.damage);
    CHECK_FALSE(y.damage->torn);
  }
}

TEST_CASE("journal: a file full of record headers is read quickly and is not "
          "taken for a torn write") {
  std::string file;
  while (file.size() < 1u << 20)
    file += std::string{"MRJ1\0\0\x07\0", 8};
  auto y = read_journal(file); // hashing each candidate: 10^11 bytes
  REQUIRE(y.damage);
  CHECK_FALSE(y.damage->torn);
}
