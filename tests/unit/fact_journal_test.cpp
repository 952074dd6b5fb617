// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>

#include "runtime/store/fact_journal.hpp"
#include "runtime/virtual/disk.hpp"
#include "tests/support/campaign.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

using disk_ptr = std::shared_ptr<virtual_disk>;

disk_ptr make_disk(uint64_t seed = 1) {
  return std::make_shared<virtual_disk>(random_stream{seed});
}

result<std::unique_ptr<fact_journal>>
open(const disk_ptr& d, std::vector<fact_migration> migrations = {}) {
  return fact_journal::open(d->open(), "j", std::move(migrations));
}

result<uint64_t> put(fact_journal& j, const std::string& key,
                     const std::string& value, uint64_t expected) {
  auto version = j.stage("t", key, value, expected);
  if (version)
    if (auto done = j.commit(); !done)
      return done.failure();
  return version;
}

/// The expected rows of a table by key. The table may also have the last write,
/// which failed without a clear outcome.
struct expected_rows {
  std::map<std::string, std::string> told;
  std::string key, value; ///< the last write that failed

  bool fits(const fact_journal& j) const {
    std::map<std::string, std::string> found;
    for (auto& row : j.rows("t"))
      found[row.key] = row.value;
    auto other = told;
    if (value.empty())
      other.erase(key);
    else
      other[key] = value;
    return found == told || (!key.empty() && found == other);
  }
};

/// Writes random rows until the disk fails. Large rows make the journal compact
/// itself. Returns how many writes were acknowledged.
size_t write_some(fact_journal& j, random_stream& random, expected_rows& rows,
                  int writes, bool large) {
  size_t acknowledged = 0;
  for (int i = 0; i < writes; ++i) {
    auto key = "k" + std::to_string(random.below(3));
    std::string value;
    if (random.below(5) != 0)
      value.assign(large && random.below(2) == 0 ? 150'000 : random.below(700),
                   static_cast<char>('a' + i % 26));
    uint64_t version = 0;
    for (auto& row : j.rows("t"))
      if (row.key == key)
        version = row.version;
    if (version == 0 && value.empty())
      continue;
    auto done = put(j, key, value, version);
    if (!done) {
      rows.key = key;
      rows.value = value;
      return acknowledged;
    }
    ++acknowledged;
    if (value.empty())
      rows.told.erase(key);
    else
      rows.told[key] = value;
  }
  return acknowledged;
}

/// Makes the n-th step from now on and all later steps fail.
void end_at(virtual_disk& d, uint64_t n) {
  d.fail([left = n](disk_step) mutable { return left == 0 || --left == 0; });
}

/// A journal whose disk failed at the n-th step, and only at that step.
struct failed_journal {
  failed_journal(uint64_t seed, uint64_t n, bool large)
    : d(make_disk(seed)),
      random(seed * 1000 + n) {
    auto opened = open(d);
    REQUIRE(opened);
    j = std::move(*opened);
    d->fail([left = n](disk_step) mutable { return --left == 0; });
    write_some(*j, random, rows, 10, large);
  }

  /// The journal as it is read after a power loss.
  std::unique_ptr<fact_journal> after_power_loss() const {
    d->fail({});
    d->lose_power();
    auto again = open(d);
    REQUIRE(again);
    return std::move(*again);
  }

  disk_ptr d;
  random_stream random;
  expected_rows rows;
  std::unique_ptr<fact_journal> j;
};

} // namespace

TEST_CASE(
  "P6: acknowledged writes survive a power loss at every step of every write") {
  size_t crashes = 0, mended = 0, open_outcomes = 0;
  for (auto seed : seeds(400)) {
    bool over = false;
    for (uint64_t step = 1; !over; ++step) {
      auto d = make_disk(seed * 1000 + step);
      random_stream random{seed};
      expected_rows rows;
      end_at(*d, step);
      if (auto j = open(d)) {
        write_some(**j, random, rows, 10, seed % 8 == 0);
        over = rows.key.empty(); // no step is left
      }
      d->lose_power();
      ++crashes;
      CAPTURE(seed);
      CAPTURE(step);
      // Power fails again during the read.
      end_at(*d, 1 + random.below(7));
      static_cast<void>(open(d));
      d->lose_power();
      d->fail({});
      auto j = open(d);
      REQUIRE(j);
      REQUIRE(rows.fits(**j));
      mended += !(*j)->mended().empty();
      // The journal accepts further writes.
      REQUIRE((*j)->raise("u", "n"));
      j = open(d);
      REQUIRE(j);
      REQUIRE(rows.fits(**j));
      open_outcomes += !rows.key.empty();
    }
  }
  CHECK(crashes >= 10'000);
  CHECK(mended > 100);
  CHECK(open_outcomes > 1000);
}

TEST_CASE(
  "P6: no acknowledged write of 100000 is lost over 10000 power losses") {
  size_t acknowledged = 0, crashes = 0, open_outcomes = 0;
  const size_t writes = 100'000u * times(), losses = 10'000u * times();
  for (auto seed = first_seed(); acknowledged < writes || crashes < losses;
       ++seed) {
    auto d = make_disk(seed);
    random_stream random{seed};
    expected_rows rows;
    for (int life = 0; life < 100; ++life) {
      end_at(*d, 1 + random.below(60)); // also in the middle of a start
      if (auto j = open(d))
        acknowledged += write_some(**j, random, rows, 100, false);
      d->lose_power();
      d->fail({});
      ++crashes;
      CAPTURE(seed);
      CAPTURE(life);
      auto j = open(d);
      REQUIRE(j);
      REQUIRE(rows.fits(**j));
      open_outcomes += !rows.key.empty();
      rows = {};
      for (auto& row : (*j)->rows("t"))
        rows.told[row.key] = row.value;
    }
  }
  MESSAGE(acknowledged << " acknowledged, " << crashes
                       << " losses of power, 0 lost");
  CHECK(open_outcomes > 1000);
}

TEST_CASE("P6: any flipped bit of a journal is detected and no damaged record "
          "is used") {
  constexpr int writes = 6;
  std::vector<std::map<std::string, std::string>> states{{}};
  auto filled = [&](bool note) {
    auto d = make_disk();
    auto j = open(d);
    REQUIRE(j);
    for (int i = 0; i < writes; ++i) {
      auto key = "k" + std::to_string(i % 4);
      auto value = "value " + std::to_string(i);
      REQUIRE(put(**j, key, value, static_cast<uint64_t>(i / 4)));
      if (note) {
        states.push_back(states.back());
        states.back()[key] = value;
      }
    }
    return d;
  };
  auto size = filled(true)->content("j")->size();
  size_t refused = 0, mended = 0;
  for (size_t at = 0; at < size; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto d = filled(false);
      auto& byte = (*d->content("j"))[at];
      byte = static_cast<char>(byte ^ (1 << bit));
      CAPTURE(at);
      CAPTURE(bit);
      auto j = open(d);
      if (!j) {
        REQUIRE(j.failure().code == ec::bad_config);
        ++refused;
        continue;
      }
      // A flip in the last record looks like a truncated write.
      REQUIRE_FALSE((*j)->mended().empty());
      REQUIRE(expected_rows{states[writes - 1], {}, {}}.fits(**j));
      ++mended;
    }
  MESSAGE(size << " bytes: " << refused << " flips refused, " << mended
               << " dropped with the last record");
  CHECK(refused + mended == 8 * size);
  CHECK(mended < 8 * size / writes);
}

TEST_CASE("P6: writes that were not synced are not trusted after a restart") {
  for (auto seed : seeds(1000)) {
    auto d = make_disk(seed);
    random_stream random{seed};
    expected_rows rows;
    for (int start = 0; start < 8; ++start) {
      d->fail({});
      if (random.below(2) == 0)
        d->lose_power();
      auto j = open(d);
      CAPTURE(seed);
      CAPTURE(start);
      REQUIRE(j);
      REQUIRE(rows.fits(**j));
      rows = {};
      for (auto& row : (*j)->rows("t"))
        rows.told[row.key] = row.value;
      // Steps fail at random.
      d->fail([r = random.fork(std::to_string(start))](disk_step) mutable {
        return r.below(10) == 0;
      });
      for (int i = 0; i < 4 && rows.key.empty(); ++i)
        write_some(**j, random, rows, 3, false);
      if (random.below(2) == 0) { // a restart that fails on the faulty disk
        auto failed = open(d);
        if (failed)
          REQUIRE(rows.fits(**failed));
      }
    }
  }
}

TEST_CASE("P18: after a failure of any step the acknowledged rows remain and "
          "the next write succeeds without a restart") {
  for (auto seed : seeds(60))
    for (uint64_t step = 1; step <= 60; ++step) {
      CAPTURE(seed);
      CAPTURE(step);
      failed_journal x{seed, step, seed % 8 == 0};
      // A failed write is not visible.
      auto failed = x.rows;
      failed.key.clear();
      REQUIRE(failed.fits(*x.j));
      x.rows.key.clear();
      write_some(*x.j, x.random, x.rows, 10, seed % 8 == 0);
      if (x.rows.key.empty() && step <= 20)
        REQUIRE(x.rows.fits(*x.j));
      REQUIRE(x.rows.fits(*x.after_power_loss()));
    }
}

TEST_CASE("P18: the remains of a failed write are removed once the disk works "
          "again without another write") {
  size_t failures = 0;
  for (auto seed : seeds(60))
    for (uint64_t step = 1; step <= 30; ++step) {
      CAPTURE(seed);
      CAPTURE(step);
      failed_journal x{seed, step, false};
      failures += !x.rows.key.empty();
      x.d->fail({});
      REQUIRE(x.j->mend());
      x.rows.key.clear(); // the failed write is not visible
      REQUIRE(x.rows.fits(*x.after_power_loss()));
    }
  CHECK(failures > 500);
}

TEST_CASE("P18: a journal that could not compact accepts writes and compacts "
          "once the disk permits it") {
  auto d = make_disk();
  auto j = open(d);
  REQUIRE(j);
  d->fail([](disk_step x) { return x == disk_step::rename; });
  for (uint64_t version = 0; version < 10; ++version)
    REQUIRE(put(**j, "k", std::string(100'000, 'x'), version));
  CHECK(d->content("j")->size() > 900'000);
  CHECK_FALSE((*j)->mend());
  d->fail({});
  REQUIRE((*j)->mend());
  CHECK(d->content("j")->size() < 200'000);
}

TEST_CASE(
  "P18: a journal without room to compact leaves no bytes of its attempt") {
  auto d = make_disk();
  auto j = open(d);
  REQUIRE(j);
  // The append that fails is the one to the new file.
  int created = 0;
  d->fail([&](disk_step x) {
    created += x == disk_step::create;
    return x == disk_step::append && created == 1;
  });
  for (uint64_t version = 0; version < 10; ++version)
    REQUIRE(put(**j, "k", std::string(100'000, 'x'), version));
  REQUIRE(created == 2);
  REQUIRE(d->content("j.new") != nullptr);
  CHECK(d->content("j.new")->empty());
}

TEST_CASE("P6: damage in the middle is refused with its place and earlier "
          "records can be kept") {
  auto d = make_disk();
  {
    auto j = open(d);
    REQUIRE(j);
    CHECK(put(**j, "a", "one", 0));
    CHECK(put(**j, "b", "two", 0));
    CHECK(put(**j, "c", "three", 0));
  }
  auto whole = *d->content("j");
  auto at = whole.find("two");
  (*d->content("j"))[at] ^= 1;
  auto broken = *d->content("j");
  auto j = open(d);
  REQUIRE_FALSE(j);
  CHECK(j.failure().code == ec::bad_config);
  CHECK(j.failure().text.find("j: bytes ") == 0);
  CHECK(j.failure().text.find("the 2 records before are whole")
        != std::string::npos);
  auto view = d->open();
  auto done = fact_journal::replace(*view, "j", broken, "j.damaged");
  REQUIRE(done);
  REQUIRE(done->damage);
  CHECK(done->damage->from <= at);
  d->lose_power();
  CHECK(*d->content("j.damaged") == broken);
  auto values = [&] {
    std::vector<std::string> out;
    auto x = open(d);
    REQUIRE(x);
    for (auto& row : (*x)->rows("t"))
      out.push_back(row.value);
    return out;
  };
  CHECK(values() == std::vector<std::string>{"one"});
  // A backup can be put back.
  REQUIRE(fact_journal::replace(*view, "j", whole, "j.before"));
  CHECK(values() == std::vector<std::string>{"one", "two", "three"});
  CHECK_FALSE(fact_journal::replace(*view, "j", "no journal", "j.other"));
  CHECK(d->content("j.other") == nullptr);
}

TEST_CASE(
  "fact_journal: a newer schema is refused and an older one is migrated") {
  auto d = make_disk();
  {
    auto j = open(d);
    REQUIRE(j);
    CHECK(put(**j, "a", "1", 0));
  }
  auto suffix = [](const char* x) {
    return [x](fact_tables& tables) -> result<void> {
      for (auto& [key, row] : tables["t"])
        row.value += x;
      return {};
    };
  };
  std::vector<fact_migration> two{suffix("+2"), suffix("+3")};
  for (int i = 0; i < 2; ++i) { // the second time no migration is left
    auto j = open(d, two);
    REQUIRE(j);
    CHECK((*j)->rows("t").at(0).value == "1+2+3");
    d->lose_power();
  }
  auto j = open(d);
  REQUIRE_FALSE(j);
  CHECK(j.failure().code == ec::bad_config);
  CHECK(j.failure().text.find("schema 3") != std::string::npos);
  two.push_back([](fact_tables&) -> result<void> {
    return error{ec::bad_config, "not these", {}};
  });
  CHECK(open(d, two).failure().text == "j: not these");
}

TEST_CASE("fact_journal: the file does not grow with the number of writes") {
  auto d = make_disk();
  auto j = open(d);
  REQUIRE(j);
  for (uint64_t i = 0; i < 5000; ++i)
    REQUIRE(put(**j, "a", std::string(200, 'x'), i));
  CHECK(d->content("j")->size() < 300'000);
  CHECK((*j)->rows("t").at(0).version == 5000);
}

TEST_CASE("fact_journal: a row that is too large or that exceeds the total is "
          "refused") {
  auto d = make_disk();
  auto j = open(d);
  REQUIRE(j);
  CHECK(put(**j, "a", std::string(journal_record_max, 'x'), 0).failure().code
        == ec::too_large);
  auto most = std::string(journal_record_max - 100, 'x');
  for (int i = 0; i < 16; ++i)
    REQUIRE(put(**j, std::to_string(i), most, 0));
  CHECK(put(**j, "one more", most, 0).failure().code == ec::too_large);
  CHECK(put(**j, "3", "", 1));
  CHECK(put(**j, "one more", most, 0));
}

TEST_CASE("fact_journal: a counter rises across power losses") {
  auto d = make_disk();
  CHECK(*(*open(d))->raise("starts", "n") == 1);
  d->lose_power();
  CHECK(*(*open(d))->raise("starts", "n") == 2);
  CHECK(*(*open(d))->raise("starts", "n", 17) == 17);
  CHECK(*(*open(d))->raise("starts", "n", 5) == 18);
}
