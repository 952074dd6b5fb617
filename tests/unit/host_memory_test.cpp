// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "models/host_memory.hpp"
#include "runtime/records.hpp"
#include "tests/support/temporary_directory.hpp"

/// \file
/// Two users that share a host's memory, as two processes do.

using namespace millrace;
using namespace millrace::test;

namespace {

const std::string content(chunk_bytes + 1000, 'w');

chunk_list chunks() {
  return chunk_list::of(std::as_bytes(std::span{content}));
}

ino_t file_number(const arriving_file& x) {
  struct stat s {};
  REQUIRE(::fstat(x.file().get(), &s) == 0);
  return s.st_ino;
}

class shared_host {
public:
  shared_host() {
    std::filesystem::permissions(place_.path(),
                                 std::filesystem::perms::owner_all);
    std::ofstream{on_disk_} << content;
  }

  std::string folder() const { return place_.path() + "/host"; }

  std::shared_ptr<host_memory> join() const {
    auto x = host_memory::join(folder());
    REQUIRE(x);
    return *x;
  }

  /// Reads the file as from the disk.
  result<std::shared_ptr<arriving_file>> read(host_memory& by) const {
    return by.open("weights", content.size(), chunks(),
                   file_descriptor{::open(on_disk_.c_str(), O_RDONLY)});
  }

  std::shared_ptr<arriving_file> read_whole(host_memory& by) const {
    auto x = read(by);
    REQUIRE(x);
    for (size_t i = 0; i < chunks().size(); ++i)
      REQUIRE((*x)->verify(i));
    return *x;
  }

  int sockets() const {
    auto n = 0;
    for (auto& x : std::filesystem::directory_iterator{folder()})
      n += x.path().extension() == ".socket";
    return n;
  }

private:
  temporary_directory place_;
  std::string on_disk_ = place_.path() + "/weights";
};

/// A hostile process that listens where host_memory looks for other processes.
class impostor {
public:
  /// Sends the file `gives` to each process that connects.
  impostor(const shared_host& host, int gives) : gives_(gives) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    (host.folder() + "/0.socket").copy(to.sun_path, sizeof to.sun_path - 1);
    REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to)
            == 0);
    REQUIRE(::listen(socket_.get(), 1) == 0);
  }

  void answer_one() {
    thread_.post([this] {
      file_descriptor x{::accept(socket_.get(), nullptr, nullptr)};
      wait_for(x, far_future);
      send_record(x, true, std::array{gives_});
      wait_for(x, far_future);
    });
  }

private:
  int gives_;
  file_descriptor socket_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  worker_thread thread_{"impostor"};
};

} // namespace

TEST_CASE("host_memory: a second process maps the complete file of the first "
          "and keeps it after the first ends") {
  shared_host host;
  auto one = host.join();
  auto first = host.read_whole(*one);
  auto another = host.join();
  auto second = host.read(*another);
  REQUIRE(second);
  CHECK((*second)->is_in_memory());
  CHECK((*second)->has({0, chunks().size()}));
  CHECK(file_number(**second) == file_number(*first));
  CHECK((*second)->content().text() == content);

  auto number = file_number(*first);
  first = nullptr;
  one = nullptr;
  CHECK(host.sockets() == 1);
  auto third = host.join();
  auto again = host.read(*third);
  REQUIRE(again);
  CHECK(file_number(**again) == number);
}

TEST_CASE("host_memory: a file without users is not shared") {
  shared_host host;
  auto one = host.join(), another = host.join();
  host.read_whole(*one);
  auto anew = host.read(*another);
  REQUIRE(anew);
  CHECK_FALSE((*anew)->has(0));
}

TEST_CASE("FP-42: while one process of a host reads a file the others get a "
          "conflict and then share it or read it themselves") {
  shared_host host;
  auto one = host.join(), another = host.join();
  auto first = host.read(*one);
  REQUIRE(first);
  auto refused = host.read(*another);
  REQUIRE_FALSE(refused);
  CHECK(refused.failure().code == ec::conflict);

  SUBCASE("the file was read") {
    for (size_t i = 0; i < chunks().size(); ++i)
      REQUIRE((*first)->verify(i));
    auto second = host.read(*another);
    REQUIRE(second);
    CHECK((*second)->has({0, chunks().size()}));
  }
  SUBCASE("the reader needs no further chunks") {
    REQUIRE((*first)->verify(0));
    (*first)->rest();
    CHECK((*first)->has(0));
    auto second = host.read(*another);
    REQUIRE(second);
    CHECK_FALSE((*second)->has(0)); // an incomplete file is not shared
  }
  SUBCASE("the reader gave up") {
    (*first)->give_up({ec::unavailable, "the disk is gone", {}});
    CHECK(host.read(*another));
  }
  SUBCASE("the file has no user") {
    first = std::shared_ptr<arriving_file>{};
    CHECK(host.read(*another));
  }
}

TEST_CASE("host_memory: a file from other hosts is shared with processes of "
          "this host once it is complete") {
  shared_host host;
  auto one = host.join(), another = host.join();
  auto bytes = std::as_bytes(std::span{content});
  auto arriving = one->open("weights", content.size(), chunks());
  REQUIRE(arriving);
  REQUIRE((*arriving)->put(0, bytes.first(chunk_bytes)));
  auto too_early = another->open("weights", content.size(), chunks());
  REQUIRE(too_early);
  CHECK_FALSE((*too_early)->has(0));
  REQUIRE((*arriving)->put(1, bytes.subspan(chunk_bytes)));
  auto there = another->open("weights", content.size(), chunks());
  REQUIRE(there);
  CHECK(file_number(**there) == file_number(**arriving));
}

TEST_CASE("P8: a file from another process is used only if it is sealed "
          "against changes") {
  shared_host host;
  auto mine = host.join();
  file_descriptor given{
    ::memfd_create("weights", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  std::string wrong(content.size(), 'x');
  SUBCASE("same size and not sealed") {
    REQUIRE(::write(given.get(), wrong.data(), wrong.size()) > 0);
  }
  SUBCASE("sealed and shorter") {
    REQUIRE(::write(given.get(), wrong.data(), 1000) > 0);
    REQUIRE(::fcntl(given.get(), F_ADD_SEALS,
                    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
            == 0);
  }
  SUBCASE("no file in memory") {
    given = file_descriptor{::open("/dev/null", O_RDONLY)};
  }
  impostor other{host, given.get()};
  other.answer_one();
  auto x = host.read(*mine);
  REQUIRE(x);
  CHECK_FALSE((*x)->has(0));
}

TEST_CASE("QU-48: a process that does not answer or has ended is skipped") {
  shared_host host;
  auto mine = host.join();
  {
    impostor silent{host, 0};
    CHECK(host.read(*mine));
  }
  CHECK(host.sockets() == 2); // one belongs to an ended process
  CHECK(host.read(*mine));
  CHECK(host.sockets() == 1);
}

TEST_CASE("host_memory: a process that joins removes the leftovers of killed "
          "processes") {
  shared_host host;
  {
    auto first = host.join();
    impostor killed{host, 0};
  }
  CHECK(host.sockets() == 1);
  auto other = host_memory::join(host.folder() + "-of-another-name");
  REQUIRE(other);
  CHECK_FALSE(std::filesystem::exists(host.folder()));
  auto again = host.join();
  CHECK(host.sockets() == 1);
}

TEST_CASE("host_memory: a folder that other users can write to is refused") {
  shared_host host;
  std::filesystem::create_directory(host.folder());
  SUBCASE("all users can enter it") {
    std::filesystem::permissions(host.folder(), std::filesystem::perms::all);
  }
  SUBCASE("it is a link") {
    std::filesystem::remove(host.folder());
    std::filesystem::create_directory_symlink("/tmp", host.folder());
  }
  auto x = host_memory::join(host.folder());
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::forbidden);
}
