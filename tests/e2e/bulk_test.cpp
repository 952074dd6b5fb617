// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>

#include "models/arriving_file.hpp"
#include "runtime/random.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_directory.hpp"
#include "transport/zmq/zmq_bulk.hpp"

/// \file
/// Bulk transfers between hosts over real sockets.

using namespace millrace;
using namespace millrace::test;

namespace {

const std::string content = "c";
const std::string token = "t";

/// The test content: several chunks, the last one short.
const std::string& original() {
  static const std::string out = [] {
    random_stream random{7};
    std::string x(24 * chunk_bytes + 77, '\0');
    for (size_t i = 0; i < x.size(); i += 64)
      x[i] = static_cast<char>(random.below(256));
    return x;
  }();
  return out;
}

const_bytes chunk_of(size_t i) {
  auto rest = std::as_bytes(std::span{original()}).subspan(i * chunk_bytes);
  return rest.first(std::min(rest.size(), chunk_bytes));
}

const chunk_list& list() {
  static const auto out = chunk_list::of(std::as_bytes(std::span{original()}));
  return out;
}

/// A content with a head of one piece.
class plain_content : public bulk_content {
public:
  plain_content()
    : file(*arriving_file::make("f", original().size(), list())) {}

  std::vector<shared_bytes> head() const override {
    return {shared_bytes::copy_of("head")};
  }
  size_t chunks() const override { return file->chunks(); }
  bool has(size_t i) const override { return file->has(i); }
  result<shared_bytes> chunk(size_t i) override {
    if (is_broken)
      return error{ec::bad_config, "it has changed", {}};
    ++given;
    auto all = file->content();
    auto begin = i * chunk_bytes;
    auto out = all.slice(begin, std::min(chunk_bytes, all.size() - begin));
    if (!spoils || i != 3)
      return out;
    std::string wrong{out.text()};
    wrong[5] ^= 1;
    return shared_bytes::copy_of(wrong);
  }
  result<void> put(size_t i, const shared_bytes& x) override {
    return file->put(i, x.view());
  }
  void when(size_t i, std::function<void(const result<void>&)> then) override {
    file->when({i, i + 1}, std::move(then));
  }

  std::shared_ptr<arriving_file> file;
  mutable std::atomic<size_t> given{0};
  bool spoils = false;
  bool is_broken = false;
};

/// A host with a bulk port and one content, without actors.
class host {
public:
  host(const temporary_directory& folder, const std::string& name)
    : name_(name) {
    zmq_bulk_settings settings;
    settings.self = {name, 1, 1};
    settings.endpoint = "ipc://" + (folder / name);
    auto x = zmq_bulk::open(std::move(settings), counts_);
    REQUIRE(x);
    port = std::move(*x);
    port->offer(content, token, mine); // offers present and later chunks
  }

  /// Stores all chunks at once.
  void have_all() {
    for (size_t i = 0; i < mine->chunks(); ++i)
      REQUIRE(mine->file->put(i, chunk_of(i)));
  }

  bulk_source as_source(const std::string& said = token) const {
    return {name_, port->address(), said, {}};
  }

  /// Fetches the content from these sources, and serves its chunks at the same
  /// time.
  void pull_from(std::vector<bulk_source> sources) {
    bulk_order order;
    order.content = content;
    order.begin = [this](auto& head) -> result<std::shared_ptr<bulk_content>> {
      if (head.size() != 1 || head[0].text() != "head")
        return error{ec::bad_config, "another head"};
      return std::shared_ptr<bulk_content>{mine};
    };
    order.wanted = [](auto& x) {
      return std::vector<chunk_range>{{0, x.chunks()}};
    };
    order.got = [this](size_t missing) { missing_ = missing; };
    order.lost = [this](auto& node, auto& why) {
      std::lock_guard guard{mutex_};
      lost_[node] = why.text;
    };
    port->pull(std::move(order));
    port->pull_from(content, std::move(sources));
  }

  /// The reason for giving up a source; empty: not given up.
  std::string lost(const std::string& node) {
    std::lock_guard guard{mutex_};
    return lost_[node];
  }

  /// Compares the byte counters of the content in one direction.
  bool has_moved(std::string_view direction, size_t bytes) const {
    auto line = "millrace_model_bytes_total{direction=\"";
    return counts_.text().find(line + std::string{direction} + "\"} "
                               + std::to_string(bytes) + "\n")
           != std::string::npos;
  }

  bool has_all() const {
    return missing_ == 0 && mine->file->content().text() == original();
  }

  std::shared_ptr<plain_content> mine = std::make_shared<plain_content>();

private:
  std::string name_;
  metrics counts_;
  std::atomic<size_t> missing_{~size_t{0}};
  std::mutex mutex_;
  std::map<std::string, std::string> lost_;

public:
  std::unique_ptr<zmq_bulk> port; // destroyed first, because it calls back
};

} // namespace

TEST_CASE("FP-45, FP-46, FP-50: hosts in a chain forward each chunk once and"
          " end with the same bytes") {
  temporary_directory folder;
  host source{folder, "s"}, a{folder, "a"}, b{folder, "b"}, c{folder, "c"};
  source.have_all();
  c.pull_from({b.as_source()});
  b.pull_from({a.as_source()});
  a.pull_from({source.as_source()});
  CHECK(
    eventually([&] { return a.has_all() && b.has_all() && c.has_all(); }, 10s));
  CHECK(source.mine->given == list().size());
  CHECK(a.mine->given == list().size());
  CHECK(b.mine->given == list().size());
  CHECK(c.mine->given == 0);
  CHECK(a.has_moved("received", original().size()));
  CHECK(a.has_moved("sent", original().size()));
  CHECK(c.has_moved("sent", 0));
}

TEST_CASE("P8, FP-49: a source that sends a wrong chunk gets no more requests"
          " and other sources send the rest") {
  temporary_directory folder;
  host bad{folder, "bad"}, good{folder, "good"}, to{folder, "to"};
  bad.mine->spoils = true;
  bad.have_all();
  good.have_all();
  to.pull_from({bad.as_source()});
  REQUIRE(eventually([&] { return !to.lost("bad").empty(); }, 5s));
  CHECK(to.lost("bad").find("SHA-256") != std::string::npos);
  CHECK_FALSE(to.has_all());
  CHECK_FALSE(to.mine->has(3));
  to.port->pull_from(content, {good.as_source()});
  CHECK(eventually([&] { return to.has_all(); }, 5s));
}

TEST_CASE("P8: a source that finds its own copy broken stops serving the"
          " copy") {
  temporary_directory folder;
  host bad{folder, "bad"}, one{folder, "one"}, other{folder, "other"};
  bad.have_all();
  bad.mine->is_broken = true;
  one.pull_from({bad.as_source()});
  REQUIRE(eventually([&] { return !one.lost("bad").empty(); }, 5s));
  CHECK(one.lost("bad").find("the content failed verification")
        != std::string::npos);
  other.pull_from({bad.as_source()});
  CHECK(eventually([&] { return !other.lost("bad").empty(); }, 5s));
  CHECK(other.lost("bad").find("no content is offered") != std::string::npos);
}

TEST_CASE("P7: hosts behind a lost relay continue with another source at their"
          " first missing chunk") {
  temporary_directory folder;
  host source{folder, "s"}, last{folder, "l"};
  auto relay = std::make_unique<host>(folder, "r");
  for (size_t i = 0; i < 10; ++i)
    REQUIRE(source.mine->file->put(i, chunk_of(i)));
  last.pull_from({relay->as_source()});
  relay->pull_from({source.as_source()});
  REQUIRE(
    eventually([&] { return last.mine->file->chunks_there() == 10; }, 5s));
  relay.reset();
  CHECK(eventually([&] { return !last.lost("r").empty(); }, 5s));
  last.port->pull_from(content, {source.as_source()});
  for (size_t i = 10; i < list().size(); ++i)
    REQUIRE(source.mine->file->put(i, chunk_of(i)));
  CHECK(eventually([&] { return last.has_all(); }, 5s));
  // Chunks that were in transit to the relay at its end are sent twice.
  CHECK(source.mine->given <= list().size() + 4);
}

TEST_CASE("bulk: a pull with a wrong token or from a missing source fails") {
  temporary_directory folder;
  host source{folder, "s"}, to{folder, "to"};
  source.have_all();
  to.pull_from({source.as_source("u"),
                {"nobody", "ipc://" + (folder / "nobody"), token, {}}});
  CHECK(eventually([&] { return !to.lost("s").empty(); }, 5s));
  CHECK(to.lost("s").find("token") != std::string::npos);
  CHECK(eventually([&] { return !to.lost("nobody").empty(); }, 5s));
  CHECK(source.mine->given == 0);
}

TEST_CASE("FP-62: two hosts with the same content share the transfer") {
  temporary_directory folder;
  host a{folder, "a"}, b{folder, "b"}, to{folder, "to"};
  a.have_all();
  b.have_all();
  to.pull_from({a.as_source(), b.as_source()});
  CHECK(eventually([&] { return to.has_all(); }, 5s));
  CHECK(a.mine->given + b.mine->given == list().size());
  CHECK(a.mine->given >= 4);
  CHECK(b.mine->given >= 4);
}
