// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>

#include "runtime/bytes.hpp"
#include "runtime/store/audit_journal.hpp"
#include "runtime/store/kept_log.hpp"
#include "runtime/virtual/disk.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;

/// A disk with an audit log.
class audited {
public:
  std::unique_ptr<audit_journal> open(size_t part_max = audit_part_max) {
    auto x = audit_journal::open(disk_->open(), part_max);
    REQUIRE(x);
    return std::move(*x);
  }

  /// The lines that a reader finds, and the error in the log (empty if none).
  std::pair<lines, std::string> read() const {
    lines parts, out;
    for (int i = audit_parts; i >= 0; --i)
      if (auto* text = disk_->content(audit_part(i)))
        parts.push_back(*text);
    auto* key = disk_->content(chain_key_file);
    auto wrong = read_audit(parts, out, key != nullptr ? *key : "");
    return {out, wrong};
  }

  virtual_disk& disk() { return *disk_; }

private:
  std::shared_ptr<virtual_disk> disk_ =
    std::make_shared<virtual_disk>(random_stream{7});
};

} // namespace

TEST_CASE("audit: appended lines survive restarts and power losses") {
  audited x;
  lines expected;
  for (int i = 0; i < 20; ++i) {
    auto line = "ops said " + std::to_string(i);
    REQUIRE(x.open()->append({line}));
    expected.push_back(line);
    if (i % 3 == 0)
      x.disk().lose_power();
  }
  auto [found, wrong] = x.read();
  CHECK(found == expected);
  CHECK(wrong.empty());
}

TEST_CASE("audit: a changed line is detected") {
  audited x;
  REQUIRE(x.open()->append({"ops said drain", "ops said set_model"}));
  auto& text = *x.disk().content(audit_file);
  auto at = text.find("drain");
  text.replace(at, 5, "hello");
  auto [found, wrong] = x.read();
  CHECK(wrong.find("damaged") != std::string::npos);
  // Later lines go into another part; the reader still reports the damage.
  REQUIRE(x.open()->append({"ops said evict"}));
  std::tie(found, wrong) = x.read();
  CHECK(found.back() == "ops said evict");
  CHECK(wrong.find("damaged") != std::string::npos);
}

TEST_CASE("audit: an exchanged part is detected") {
  audited x, other;
  REQUIRE(x.open(0)->append({"ops said one"}));
  REQUIRE(x.open(0)->append({"ops said two"}));
  REQUIRE(x.read().second.empty());
  REQUIRE(other.open(0)->append({"nobody said a thing"}));
  *x.disk().content(audit_part(1)) = *other.disk().content(audit_file);
  CHECK(x.read().second == "a part does not follow the part before it");
}

TEST_CASE("audit: a full part is followed by a new part and the oldest part is "
          "deleted") {
  audited x;
  auto log = x.open(0);
  for (int i = 0; i < 3 * audit_parts; ++i)
    REQUIRE(log->append({"line " + std::to_string(i)}));
  auto [found, wrong] = x.read();
  CHECK(wrong.empty());
  CHECK(found.size() == audit_parts + 1);
  CHECK(found.back() == "line " + std::to_string(3 * audit_parts - 1));
  CHECK(found.front() == "line " + std::to_string(2 * audit_parts - 1));
}

TEST_CASE("audit: parts in a directory rotate across restarts") {
  temporary_directory dir;
  constexpr int lives = audit_parts + 3;
  for (int i = 0; i < lives; ++i) {
    auto where = open_directory(dir.path());
    REQUIRE(where);
    auto log = audit_journal::open(std::move(*where), 0);
    REQUIRE(log);
    REQUIRE((*log)->append({"line " + std::to_string(i)}));
  }
  lines parts, found;
  for (int i = audit_parts; i >= 0; --i) {
    auto text = read_file(dir / audit_part(i), 4096);
    REQUIRE(text);
    parts.push_back(*text);
  }
  CHECK(read_audit(parts, found).empty());
  CHECK(found.back() == "line " + std::to_string(lives - 1));
}

TEST_CASE("P18: a failed write of the audit log loses no earlier line") {
  size_t part_max = audit_part_max;
  SUBCASE("within a part") {
  }
  SUBCASE("when each line begins a part") {
    part_max = 0;
  }
  for (size_t n = 0; n < 120; ++n) {
    CAPTURE(n);
    audited x;
    lines acknowledged;
    auto log = x.open(part_max);
    size_t step = 0;
    x.disk().fail([&](disk_step) { return step++ == n; });
    for (int i = 0; i < 4; ++i)
      if (auto line = "line " + std::to_string(i); log->append({line}))
        acknowledged.push_back(line);
    x.disk().fail(nullptr);
    REQUIRE(log->append({"last"}));
    acknowledged.push_back("last");
    x.disk().lose_power();
    auto [found, wrong] = x.read();
    CHECK(wrong.empty());
    for (auto& line : acknowledged)
      CHECK(std::count(found.begin(), found.end(), line) == 1);
  }
}

TEST_CASE(
  "P6: a power loss during rotation of parts loses no line of the audit log") {
  size_t whole_runs = 0;
  for (size_t n = 0; whole_runs == 0; ++n) {
    CAPTURE(n);
    audited x;
    lines acknowledged;
    size_t step = 0;
    auto log = x.open(0);
    x.disk().fail([&](disk_step) { return step++ >= n; });
    for (int i = 0; i < 4; ++i)
      if (auto line = "line " + std::to_string(i); log->append({line}))
        acknowledged.push_back(line);
    whole_runs += step <= n;
    x.disk().fail(nullptr);
    x.disk().lose_power();
    REQUIRE(x.open(0)->append({"last"}));
    acknowledged.push_back("last");
    auto [found, wrong] = x.read();
    CHECK(wrong.empty());
    for (auto& line : acknowledged)
      CHECK(std::count(found.begin(), found.end(), line) == 1);
  }
}

TEST_CASE("P18: lines that a full disk refused are written when it has room") {
  audited x;
  std::atomic<bool> full{false};
  std::atomic<int> refused{0};
  {
    auto log = open_kept_log(x.disk().open());
    REQUIRE(log);
    x.disk().fail([&](disk_step what) {
      return full && what == disk_step::append && ++refused > 0;
    });
    full = true;
    for (int i = 0; i < 3; ++i)
      (*log)->keep("line " + std::to_string(i));
    CHECK(eventually([&] { return refused > 1; }, 10s));
    (*log)->keep("line 3");
    full = false;
  }
  x.disk().fail(nullptr);
  auto [found, wrong] = x.read();
  CHECK(wrong.empty());
  for (int i = 0; i < 4; ++i) // maybe twice: a refused write may leave a
                              // partial record
    CHECK(std::count(found.begin(), found.end(), "line " + std::to_string(i))
          > 0);
  CHECK(found.back() == "line 3");
}

TEST_CASE(
  "audit: many refusals in a short time are counted instead of listed") {
  temporary_directory data;
  {
    auto log = open_kept_log(test::disk_at(audit_directory(data.path())));
    REQUIRE(log);
    for (int i = 0; i < 1000; ++i)
      (*log)->sample("eve said x");
    (*log)->keep("ops said drain");
  }
  auto kept = read_kept_lines(audit_directory(data.path()));
  REQUIRE(kept);
  CHECK(kept->wrong.empty());
  auto& found = kept->lines;
  CHECK(found.size() < 60);
  auto has = [&](const char* what) {
    return std::any_of(found.begin(), found.end(), [&](auto& line) {
      return line.find(what) != std::string::npos;
    });
  };
  CHECK(has("more that are not listed"));
  CHECK(has("ops said drain"));
}

TEST_CASE(
  "P13: a chain of lines that was rebuilt without its key is detected") {
  temporary_directory data;
  auto folder = audit_directory(data.path());
  {
    auto log = open_kept_log(test::disk_at(folder));
    REQUIRE(log);
    (*log)->keep("rogue said deploy");
  }
  CHECK(read_kept_lines(folder)->wrong.empty());
  auto part = folder + "/" + audit_part(0);
  auto text = read_file(part, 1 << 20);
  REQUIRE(text);
  auto first = std::string{text->substr(journal_overhead, 44)}; // begin after
  journal_end end;
  auto forged = next_record(end, first) + next_record(end, "ops said nothing");
  REQUIRE(write_file(part, std::as_bytes(std::span{forged})));
  SUBCASE("by a reader with the key") {
    CHECK_FALSE(read_kept_lines(folder)->wrong.empty());
  }
  SUBCASE("by a reader without the key that reports the missing key") {
    REQUIRE(::unlink((folder + "/" + chain_key_file).c_str()) == 0);
    CHECK(read_kept_lines(folder)->wrong.find("key of the chain")
          != std::string::npos);
  }
}
