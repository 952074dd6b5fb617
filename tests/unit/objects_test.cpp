// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <future>

#include <arpa/inet.h>

#include "models/travelling_bundle.hpp"
#include "tests/support/store_with_one.hpp"
#include "tests/support/why.hpp"
#include "transport/objects/bundle_index.hpp"
#include "transport/objects/credentials.hpp"
#include "transport/objects/reply.hpp"
#include "transport/objects/stored_bundles.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

object_store_config store_at(const std::string& url) {
  object_store_config out;
  out.url = url;
  return out;
}

std::string base_of(const object_store_config& x) {
  auto found = locate(x);
  return found ? found->base : found.failure().text;
}

/// The result that `ask` passes to its callback.
template <class T, class F>
result<T> answer_to(F ask) {
  auto promise = std::make_shared<std::promise<result<T>>>();
  auto answer = promise->get_future();
  ask([promise](result<T> x) { promise->set_value(std::move(x)); });
  REQUIRE(answer.wait_for(10s) == std::future_status::ready);
  return answer.get();
}

stored_bundles bundles_of(const std::string& folder) {
  auto store = open_object_store(store_at("file://" + folder));
  REQUIRE_MESSAGE(store, why(store));
  return {std::move(*store), 8};
}

object_reply reply_of(long status, std::string body = {}) {
  object_reply out;
  out.url = "https://host/file";
  out.status = status;
  out.body = std::move(body);
  return out;
}

} // namespace

TEST_CASE(
  "object_store: the base URL follows from the configured URL and endpoint") {
  CHECK(base_of(store_at("file:///a/b")) == "file:///a/b/");
  CHECK(base_of(store_at("https://host:8443/x/")) == "https://host:8443/x/");
  auto s3 = store_at("s3://bucket/team");
  s3.region = "eu-west-1";
  CHECK(base_of(s3) == "https://bucket.s3.eu-west-1.amazonaws.com/team/");
  s3.endpoint = "https://minio:9000";
  CHECK(base_of(s3) == "https://minio:9000/bucket/team/");
}

TEST_CASE("object_store: an invalid URL is refused with the expected form") {
  auto says = [](const object_store_config& x, const std::string& what) {
    auto found = locate(x);
    REQUIRE_FALSE(found);
    CHECK_MESSAGE(found.failure().text.find(what) != std::string::npos,
                  found.failure().text);
  };
  says(store_at("bundles"), "file:///, https:// or s3://");
  says(store_at("ftp://host/x"), "file:///, https:// or s3://");
  says(store_at("file://host/x"), "file:///FOLDER");
  says(store_at("https:///x"), "names no host");
  says(store_at("https://me:secret@host/x"), "credentials do not belong");
  says(store_at("https://host/x?y"), "characters");
  says(store_at("http://host/x"), "own_network: true");
  auto odd = store_at("https://host/x");
  odd.endpoint = "https://other";
  says(odd, "for s3 alone");
  odd = store_at("s3://bucket");
  odd.endpoint = "http://host";
  says(odd, "own_network: true");
  odd.own_network = true;
  CHECK(locate(odd));
  odd.endpoint = "http://host/path";
  says(odd, "http://HOST");
  odd = store_at("s3://bucket");
  odd.region = "evil.example/x";
  says(odd, "us-east-1");
}

TEST_CASE("object_store: private addresses need permission and link-local and "
          "metadata addresses are never used") {
  auto octets = [](const char* text) {
    std::vector<uint8_t> out(
      std::string{text}.find(':') == std::string::npos ? 4 : 16);
    auto family = out.size() == 4 ? AF_INET : AF_INET6;
    REQUIRE(::inet_pton(family, text, out.data()) == 1);
    return out;
  };
  for (auto* x :
       {"127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255",
        "192.168.1.1", "100.64.0.1", "100.100.100.199", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fc00::1", "fd12::1", "fd00:ec2::253",
        "ff02::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"})
    CHECK_MESSAGE(kind_of_address(octets(x)) == address_kind::own, x);
  for (auto* x : {"8.8.8.8", "172.32.0.1", "100.128.0.1", "169.253.0.1",
                  "2606:4700::1111", "::ffff:8.8.8.8"})
    CHECK_MESSAGE(kind_of_address(octets(x)) == address_kind::everybodys, x);
  for (auto* x : {"169.254.1.1", "169.254.169.254", "fe80::1",
                  "::ffff:169.254.169.254", "100.100.100.200", "168.63.129.16",
                  "64:ff9b::a83f:8110", "fd00:ec2::254", "fd20:ce::254"})
    CHECK_MESSAGE(kind_of_address(octets(x)) == address_kind::nobodys, x);
  // the address of a Unix socket
  CHECK(kind_of_address({}) == address_kind::nobodys);
}

TEST_CASE(
  "object_store: credentials are read from section [default] of the file") {
  temporary_directory folder;
  auto x = store_at("s3://bucket");
  x.credentials = folder / "credentials";
  auto write = [&](const std::string& text) {
    REQUIRE(write_file(x.credentials, std::as_bytes(std::span{text})));
  };
  write("[other]\naws_access_key_id = no\naws_secret_access_key = no\n"
        "[default]\r\naws_access_key_id = AB\r\naws_secret_access_key=c/d+e=\n"
        " aws_session_token = t\n[more]\naws_access_key_id = no\n");
  auto found = find_credentials(x);
  REQUIRE_MESSAGE(found, why(found));
  CHECK(found->id == "AB");
  CHECK(found->secret == "c/d+e=");
  CHECK(found->session == "t");
  CHECK(found->from == x.credentials);
  write("[default]\naws_access_key_id = AB\n");
  found = find_credentials(x);
  REQUIRE_FALSE(found);
  CHECK(found.failure().text.find("aws_secret_access_key")
        != std::string::npos);
  x.credentials = folder / "none";
  CHECK_FALSE(find_credentials(x));
}

TEST_CASE("object_store: a reply maps to an error code and to a decision about "
          "retries") {
  auto fails = [](const object_reply& x, ec code, bool may_pass,
                  const std::string& says) {
    auto found = failure_of(x);
    REQUIRE(found);
    CHECK(found->what.code == code);
    CHECK(found->may_pass == may_pass);
    CHECK_MESSAGE(found->what.text.find(says) != std::string::npos,
                  found->what.text);
  };
  CHECK_FALSE(failure_of(reply_of(200, "all of it")));
  fails(reply_of(403, "<Error><Code>InvalidAccessKeyId</Code>"
                      "<Message>No such key.</Message></Error>"),
        ec::forbidden, false, "InvalidAccessKeyId");
  fails(reply_of(401), ec::forbidden, false, "AWS_ACCESS_KEY_ID");
  fails(reply_of(404, "<Error><Code>NoSuchBucket</Code></Error>"),
        ec::unknown_model, false, "NoSuchBucket");
  fails(reply_of(302), ec::unavailable, false, "not followed");
  fails(reply_of(400), ec::unavailable, false, "HTTP 400");
  fails(reply_of(429), ec::unavailable, true, "HTTP 429");
  fails(reply_of(503), ec::unavailable, true, "HTTP 503");
  auto range = reply_of(200, "all");
  range.range = 2;
  fails(range, ec::unavailable, false, "not support byte ranges");
  range.status = 206;
  fails(range, ec::unavailable, false, "3 bytes from 0 on, expected 2");
  range.body = "al";
  CHECK_FALSE(failure_of(range));
  auto large = reply_of(200);
  large.too_large = true;
  large.code = CURLE_WRITE_ERROR;
  fails(large, ec::too_large, false, "has more than the expected");
  auto cut = reply_of(0);
  cut.code = CURLE_RECV_ERROR;
  cut.why = "reset by peer";
  fails(cut, ec::unavailable, true, "reset by peer");
  cut.code = CURLE_PEER_FAILED_VERIFICATION;
  fails(cut, ec::unavailable, false, "reset by peer");
}

TEST_CASE("bundle_index: a printed index is read as the same and refuses paths "
          "outside") {
  model_info x;
  x.model = "m";
  x.version = 3;
  x.content = std::string(64, 'a');
  x.aliases = {"default"};
  x.bytes = 12;
  auto text = print_index({{x}});
  auto read = parse_index(text, "index.yaml");
  REQUIRE_MESSAGE(read, why(read));
  CHECK(read->models == std::vector{x});
  CHECK(folder_of(x) == "m/3");
  x.model = "../m";
  CHECK_FALSE(parse_index(print_index({{x}}), "index.yaml"));
  x.model = "m";
  x.content = "none";
  CHECK_FALSE(parse_index(print_index({{x}}), "index.yaml"));
}

TEST_CASE("FP-37: an object store serves a bundle like a host") {
  store_with_one here;
  auto x = here.open();
  REQUIRE(x);
  auto bundles = bundles_of(here.folder.path());
  bulk_store::place where{travelling::id_of(*x), "m/1"};
  auto head = answer_to<std::vector<shared_bytes>>(
    [&](auto done) { bundles.give_head(where, done); });
  REQUIRE_MESSAGE(head, why(head));
  CHECK(*head == *travelling::pieces_of(*x));
  for (size_t i = 0; i < x->weights_file->chunks(); ++i) {
    auto chunk = answer_to<shared_bytes>(
      [&](auto done) { bundles.give_chunk(where, i, done); });
    REQUIRE_MESSAGE(chunk, why(chunk));
    CHECK(x->weights_file->list().matches(i, chunk->view()));
  }
  auto more = answer_to<shared_bytes>([&](auto done) {
    bundles.give_chunk(where, x->weights_file->chunks(), done);
  });
  REQUIRE_FALSE(more);
  CHECK(more.failure().code == ec::bad_request);
}

TEST_CASE("P8: a bundle with another content than requested is refused from an "
          "object store") {
  store_with_one here;
  auto bundles = bundles_of(here.folder.path());
  bulk_store::place other{std::string(64, '0'), "m/1"};
  auto head = answer_to<std::vector<shared_bytes>>(
    [&](auto done) { bundles.give_head(other, done); });
  REQUIRE_FALSE(head);
  CHECK(head.failure().code == ec::bad_config);
  auto chunk = answer_to<shared_bytes>(
    [&](auto done) { bundles.give_chunk(other, 0, done); });
  REQUIRE_FALSE(chunk);
  CHECK(chunk.failure().code == ec::bad_config);
  other.folder = "m/2";
  head = answer_to<std::vector<shared_bytes>>(
    [&](auto done) { bundles.give_head(other, done); });
  REQUIRE_FALSE(head);
  CHECK(head.failure().code == ec::unknown_model);
}
