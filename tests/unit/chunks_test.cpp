// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "models/arriving_file.hpp"
#include "runtime/file_descriptor.hpp"
#include "runtime/random.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;

namespace {

/// A file of two whole chunks and 5 bytes.
std::string long_file() {
  random_stream random{1};
  std::string out(2 * chunk_bytes + 5, '\0');
  for (auto& c : out)
    c = static_cast<char>(random.below(256));
  return out;
}

const_bytes bytes(const std::string& x) {
  return std::as_bytes(std::span{x});
}

const_bytes chunk_of(const std::string& x, size_t i) {
  auto rest = bytes(x).subspan(i * chunk_bytes);
  return rest.first(std::min(rest.size(), chunk_bytes));
}

std::shared_ptr<arriving_file> coming(const std::string& x) {
  auto out = arriving_file::make("weights", x.size(), chunk_list::of(bytes(x)));
  REQUIRE(out);
  return *out;
}

/// Records the results of waiting for chunks.
struct listener {
  std::vector<std::string> heard; ///< one error text per result; empty if the
                                  ///< chunks are present
  arriving_file::arrived hear() {
    return [this](const result<void>& x) {
      heard.push_back(x ? "" : x.failure().text);
    };
  }
};

} // namespace

TEST_CASE("chunks: a file has one chunk for each started MiB") {
  CHECK(chunks_in(0) == 0);
  CHECK(chunks_in(1) == 1);
  CHECK(chunks_in(chunk_bytes) == 1);
  CHECK(chunks_in(chunk_bytes + 1) == 2);
  CHECK(chunks_over(0, 1) == chunk_range{0, 1});
  CHECK(chunks_over(chunk_bytes - 1, chunk_bytes + 1) == chunk_range{0, 2});
  CHECK(chunks_over(chunk_bytes, chunk_bytes).size() == 0);
}

TEST_CASE("chunks: the hash of a file of one chunk is its SHA-256 and of a "
          "longer file that of its chunk list") {
  std::string shorter = "code";
  CHECK(chunk_list::of(bytes(shorter)).file_hash()
        == sha256_hex(bytes(shorter)));
  CHECK(chunk_list::of({}).file_hash() == sha256_hex({}));
  auto file = long_file();
  auto list = chunk_list::of(bytes(file));
  auto text = list.text();
  CHECK(text
        == sha256_hex(chunk_of(file, 0)) + "\n" + sha256_hex(chunk_of(file, 1))
             + "\n" + sha256_hex(chunk_of(file, 2)) + "\n");
  CHECK(list.file_hash() == sha256_hex(bytes(text)));
}

TEST_CASE("P8: a chunk list that does not match the file is refused") {
  auto file = long_file();
  auto list = chunk_list::of(bytes(file));
  auto text = list.text();
  auto hash = list.file_hash();
  REQUIRE(chunk_list::read(text, file.size(), hash));
  auto refused = [&](const std::string& x) {
    return !chunk_list::read(x, file.size(), hash);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    auto wrong = text;
    wrong[i] ^= 1;
    CHECK(refused(wrong));
  }
  CHECK(refused(text.substr(1)));
  CHECK(refused(text.substr(0, text.size() - 1)));
  CHECK(refused(text + text.substr(0, 65)));
  CHECK(refused(""));
  CHECK_FALSE(chunk_list::read(text, file.size() + chunk_bytes, hash));
  CHECK_FALSE(chunk_list::of_short_file(4, "none"));
}

TEST_CASE("P8: chunks read into memory stay as they were verified") {
  test::temporary_directory folder;
  auto file = long_file();
  auto path = folder / "weights";
  auto other = file;
  other[chunk_bytes + 7] ^= 1;
  REQUIRE(write_file(path, bytes(other)));
  auto open = [&] {
    return file_descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  };
  auto x =
    arriving_file::make(path, file.size(), chunk_list::of(bytes(file)), open());
  REQUIRE(x);
  REQUIRE((*x)->verify(0));
  auto refused = (*x)->verify(1);
  REQUIRE_FALSE(refused);
  CHECK(refused.failure().code == ec::bad_config);
  CHECK_FALSE((*x)->has(1));
  // The repair writes in place, to the file that is open.
  file_descriptor mend{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  REQUIRE(::pwrite(mend.get(), &file[chunk_bytes + 7], 1, chunk_bytes + 7)
          == 1);
  REQUIRE((*x)->verify(1));
  REQUIRE(::ftruncate(mend.get(), chunk_bytes) == 0);
  auto cut = (*x)->verify(2);
  REQUIRE_FALSE(cut);
  CHECK(cut.failure().code == ec::unavailable);
  CHECK(cut.failure().text.find("ends after") != std::string::npos);
  REQUIRE((*x)->put(2, chunk_of(file, 2))); // from another source
  REQUIRE(::ftruncate(mend.get(), 0) == 0);
  CHECK(std::ranges::equal((*x)->content().view(), bytes(file)));
}

TEST_CASE("arriving_file: chunks become present in any order") {
  auto file = long_file();
  auto x = coming(file);
  listener of_last, of_all;
  x->when({2, 3}, of_last.hear());
  x->when({0, 3}, of_all.hear());
  CHECK_FALSE(x->has(2));
  REQUIRE(x->put(2, chunk_of(file, 2)));
  CHECK(x->has(2));
  CHECK(of_last.heard == std::vector<std::string>{""});
  REQUIRE(x->put(0, chunk_of(file, 0)));
  CHECK(of_all.heard.empty());
  REQUIRE(x->put(1, chunk_of(file, 1)));
  CHECK(of_all.heard.size() == 1);
  CHECK(x->content().text() == file);
  CHECK(x->has(chunk_range{0, 3}));
  listener late;
  x->when({0, 1}, late.hear());
  CHECK(late.heard.size() == 1);
}

TEST_CASE("P8: a corrupt chunk is not present and may be sent again") {
  auto file = long_file();
  auto x = coming(file);
  listener all;
  x->when({0, 3}, all.hear());
  for (size_t i = 0; i < 3; ++i) {
    std::string wrong{reinterpret_cast<const char*>(chunk_of(file, i).data()),
                      chunk_of(file, i).size()};
    wrong.back() ^= 4;
    CHECK(x->put(i, bytes(wrong)).failure().code == ec::bad_config);
    CHECK_FALSE(x->put(i, bytes(wrong).subspan(1)));
    CHECK_FALSE(x->has(i));
    CHECK(all.heard.empty());
    CHECK(x->put(i, chunk_of(file, i)));
    CHECK(x->put(i, bytes(wrong))); // ignored: the chunk is present
  }
  CHECK(all.heard.size() == 1);
  CHECK(x->content().text() == file);
}

TEST_CASE("P8: an arriving file can be changed only through its writer") {
  auto file = long_file();
  auto x = coming(file);
  auto fd = x->file().get();
  auto writable = [&] {
    auto* p = ::mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p != MAP_FAILED;
  };
  CHECK_FALSE(writable());
  struct stat seen {};
  REQUIRE(::fstat(fd, &seen) == 0);
  CHECK((seen.st_mode & 0777) == 0400); // others cannot open it
  CHECK(::pwrite(fd, "x", 1, 0) == -1);
  CHECK(::ftruncate(fd, 0) == -1);
  for (size_t i = 0; i < 3; ++i)
    REQUIRE(x->put(i, chunk_of(file, i)));
  CHECK_FALSE(writable());
  CHECK((::fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_SEAL))
        == (F_SEAL_WRITE | F_SEAL_SEAL));
}

TEST_CASE("P8: memory that cannot be sealed is not complete until it can be") {
  auto file = long_file();
  auto x = coming(file);
  struct stat its {};
  REQUIRE(::fstat(x->file().get(), &its) == 0);
  void* held = MAP_FAILED; // a mapping that could still write to the file
  for (auto fd = 0; fd < 1024 && held == MAP_FAILED; ++fd)
    if (struct stat found{}; ::fstat(fd, &found) == 0
                             && found.st_ino == its.st_ino
                             && found.st_dev == its.st_dev)
      held = ::mmap(nullptr, 1, PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(held != MAP_FAILED);
  listener all;
  x->when({0, 3}, all.hear());
  REQUIRE(x->put(0, chunk_of(file, 0)));
  REQUIRE(x->put(1, chunk_of(file, 1)));
  auto put = x->put(2, chunk_of(file, 2));
  REQUIRE_FALSE(put);
  CHECK(put.failure().code == ec::overloaded);
  CHECK_FALSE(x->has(2));
  CHECK(all.heard.empty());
  REQUIRE(::munmap(held, 1) == 0);
  CHECK(x->put(2, chunk_of(file, 2)));
  CHECK(all.heard == std::vector<std::string>{""});
}

TEST_CASE("arriving_file: waiting for a file that was given up fails with the "
          "first reason") {
  auto file = long_file();
  auto x = coming(file);
  REQUIRE(x->put(0, chunk_of(file, 0)));
  listener before, after, there;
  x->when({0, 2}, before.hear());
  x->give_up({ec::unavailable, "the disk is gone", {}});
  x->give_up({ec::unavailable, "as nobody hears", {}});
  x->when({1, 2}, after.hear());
  x->when({0, 1}, there.hear());
  for (auto* l : {&before, &after})
    CHECK(l->heard == std::vector<std::string>{"the disk is gone"});
  CHECK(there.heard == std::vector<std::string>{""});
}

TEST_CASE("arriving_file: a file without bytes is complete from the start") {
  auto x = coming("");
  CHECK(x->wait({}));
  CHECK(x->content().empty());
}

TEST_CASE("P8: a file on disk accepts no chunk from another source") {
  auto text = long_file();
  auto wrong = text;
  wrong[chunk_bytes] ^= 1;
  auto all = shared_bytes::copy_of(wrong);
  auto x = arriving_file::over("weights", {file_descriptor{}, all},
                               chunk_list::of(bytes(text)));
  REQUIRE(x->verify(0));
  CHECK_FALSE(x->verify(1));
  CHECK(x->put(0, chunk_of(text, 0))); // the chunk is present already
  auto put = x->put(1, chunk_of(text, 1));
  REQUIRE_FALSE(put);
  CHECK(put.failure().code == ec::bad_config);
  CHECK_FALSE(x->has(1));
}
