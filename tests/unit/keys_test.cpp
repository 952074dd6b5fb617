// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <sys/stat.h>

#include "runtime/bytes.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/temporary_directory.hpp"
#include "transport/access.hpp"
#include "transport/keys/key_book.hpp"
#include "transport/keys/key_file.hpp"
#include "transport/keys/misconduct.hpp"
#include "transport/keys/node_keys.hpp"
#include "transport/message_types.hpp"
#include "transport/messages/all.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

const std::string a_key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
const std::string b_key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";

/// A list with `entries`.
std::string list(const std::string& entries) {
  return "keys:\n" + entries;
}

std::string entry(const std::string& name, const std::string& role,
                  const std::string& key, const std::string& more = "") {
  return "  " + name + ": {role: " + role + ", public_key: \"" + key + "\""
         + more + "}\n";
}

std::string refusal(const std::string& text) {
  auto x = parse_allowed_keys(text, "allowed.yaml");
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::bad_config);
  return x.failure().text;
}

/// A folder with the keys of a node "a" and a client "app".
class key_folder {
public:
  key_folder() {
    allowed_keys all;
    auto add = [&](const std::string& name, role who) {
      auto pair = make_key_pair();
      REQUIRE(write_key_file(
        file(name), {name, who, "", pair.public_key, pair.secret_key, ""}));
      all.keys[name] = {who, "", pair.public_key, false};
    };
    add("a", role::node);
    add("app", role::client);
    auto text = print_allowed_keys(all);
    REQUIRE(write_file(allowed_path(path()), std::as_bytes(std::span{text})));
  }

  const std::string& path() const { return folder_.path(); }
  std::string file(const std::string& name) const {
    return key_path(path(), name);
  }

  std::string refusal(const std::string& node, bool controller = false,
                      bool cluster = false) const {
    auto x = read_node_keys({path(), node, controller, cluster});
    return x ? "" : x.failure().text;
  }

private:
  temporary_directory folder_;
};

} // namespace

// -- permissions of roles -----------------------------------------------------

TEST_CASE("P13: each role may send its messages and no other in every cell") {
  const std::set<std::string_view> client{"infer", "cancel", "describe_models"};
  const std::set<std::string_view> viewer{
    "get_members", "get_status",  "get_load",      "get_models",
    "get_starts",  "get_clock",   "get_events",    "examine",
    "get_spans",   "get_queue",   "get_requests",  "get_profiles",
    "get_plans",   "get_chains",  "get_store",     "get_cache",
    "get_demand",  "get_scaling", "get_decisions", "get_decision_records",
    "get_machines"};
  const std::set<std::string_view> orders{
    "set_model",       "forget_model",  "drain",       "set_log",
    "record_spans",    "measure_model", "slow_device", "keep_profile",
    "forget_profiles", "pin_model",     "unpin_model", "set_scope"};
  const std::set<std::string_view> node{
    "error_reply",     "ack",
    "member_list",     "node_status",
    "model_list",      "device_load",
    "replica_load",    "node_load",
    "hello",           "hello_rejected",
    "heartbeat",       "goodbye",
    "monitor_remote",  "remote_down",
    "replica_ready",   "replica_draining",
    "replica_tuned",   "batch_ran",
    "run_batch",       "batch_accepted",
    "forward_batch",   "drop_batch",
    "batch_not_found", "next_stage_unreachable",
    "router_released", "batch_done",
    "replica_status",  "inventory",
    "clock_reading",   "event_list",
    "examination",     "span_list",
    "queue_status",    "request_list",
    "profile_list",    "plan_list",
    "measured",        "bulk_ask",
    "bulk_head",       "bulk_chunk",
    "bulk_refusal",    "content_report",
    "chain_list",      "store_status",
    "cache_status",    "start_list",
    "pressure",        "demand_report",
    "demand_list",     "scaling_list",
    "decision_list",   "decision_records",
    "machine_list"};
  const std::set<std::string_view> controller{
    "deploy",          "evict",          "wanted_models",
    "adjust",          "adjust_device",  "report_inventory",
    "measure",         "set_sources",    "pin_content",
    "report_contents", "pinned_contents"};
  size_t cells = 0;
  for (auto type : message_names()) {
    CAPTURE(std::string{type});
    auto in = [&](auto&... sets) { return (sets.contains(type) || ...); };
    CHECK(may_say(role::client, type) == in(client));
    CHECK(may_say(role::viewer, type) == in(viewer));
    CHECK(may_say(role::operating, type) == in(viewer, orders));
    CHECK(may_say(role::node, type) == in(node, viewer));
    CHECK(may_say(role::controller, type)
          == in(node, viewer, orders, controller));
    CHECK(is_order(type) == in(orders));
    cells += names_of(role{}).size();
  }
  CHECK(cells == 5 * message_names().size());
}

TEST_CASE("audit: an order is logged with all its fields and defaults") {
  auto text = [](const auto& x) {
    return order_text(make_wire_message(x, timestamp{}, nullptr));
  };
  CHECK(text(set_log{}) == R"({"level":"info"})");
  set_model x;
  x.settings.model = "affine";
  x.settings.replicas = 0;
  x.instead_of = x.settings;
  x.instead_of->replicas = 4;
  CHECK(text(x).find(R"("replicas":0)") != std::string::npos);
  CHECK(text(x).find(R"("replicas":4)") != std::string::npos);
  auto torn = make_wire_message(drain{}, timestamp{}, nullptr);
  torn.body = torn.body.slice(0, 0);
  CHECK(order_text(torn) == "(0 bytes)");
}

TEST_CASE("keys: the page has the current table") {
  auto page = read_file(MILLRACE_SOURCE "/config/KEYS.md", 1 << 20);
  REQUIRE(page);
  INFO("build/bin/millrace keys table prints it");
  CHECK(page->find(access_reference()) != std::string::npos);
}

TEST_CASE("P13: no role may send an unknown message type") {
  for (auto type : {"", "Infer", "infer ", "execute", "shutdown"})
    for (size_t i = 0; i < names_of(role{}).size(); ++i)
      CHECK_FALSE(may_say(static_cast<role>(i), type));
}

// -- the list of keys ---------------------------------------------------------

TEST_CASE("keys: a list gives the owner of a key unless it is suspended") {
  auto x =
    parse_allowed_keys(list(entry("app", "client", a_key)
                            + entry("w1", "node", b_key, ", suspended: true")),
                       "allowed.yaml");
  REQUIRE(x);
  key_book book{*x};
  auto* app = book.find(a_key);
  REQUIRE(app != nullptr);
  CHECK(app->name == "app");
  CHECK(app->role == role::client);
  CHECK(app->tenant == default_tenant);
  CHECK(book.find(b_key) == nullptr);
  CHECK(book.key_of("w1") == nullptr);
  x->keys["w1"].suspended = false;
  key_book later{*x};
  REQUIRE(later.key_of("w1") != nullptr);
  CHECK(*later.key_of("w1") == b_key);
  CHECK(later.key_of("app") == nullptr); // app is no node
}

TEST_CASE("keys: a printed list is read as the same") {
  auto x =
    parse_allowed_keys(list(entry("app", "client", a_key, ", tenant: acme")
                            + entry("w1", "node", b_key, ", suspended: true")),
                       "allowed.yaml");
  REQUIRE(x);
  auto again = parse_allowed_keys(print_allowed_keys(*x), "allowed.yaml");
  REQUIRE(again);
  CHECK(again->keys == x->keys);
}

TEST_CASE("keys: an invalid list is refused with its line") {
  auto role = refusal(list(entry("app", "king", a_key)));
  CHECK(role.find("allowed.yaml:2: keys.app.role: expected one of client,")
        != std::string::npos);
  CHECK(refusal(list("  app: {public_key: \"" + a_key + "\"}\n"))
          .find("has no role")
        != std::string::npos);
  CHECK(refusal(list(entry("app", "client", "short")))
          .find("expected 40 characters of Z85, found 'short'")
        != std::string::npos);
  CHECK(refusal(
          list(entry("app", "client", a_key) + entry("twin", "client", a_key)))
          .find("has the key of app")
        != std::string::npos);
  CHECK(refusal(list(entry("w1", "node", a_key, ", tenant: acme")))
          .find("only a client has a tenant")
        != std::string::npos);
  CHECK(refusal(list(entry("../w1", "node", a_key))).find("keys.../w1")
        != std::string::npos);
}

// -- key files ----------------------------------------------------------------

TEST_CASE("keys: a secret that other users can read is refused") {
  key_folder keys;
  REQUIRE(read_key_file(keys.file("a")));
  for (mode_t mode : {0604, 0602, 0660}) {
    CAPTURE(mode);
    REQUIRE(::chmod(keys.file("a").c_str(), mode) == 0);
    auto x = read_key_file(keys.file("a"));
    REQUIRE_FALSE(x);
    CHECK(x.failure().text.find("chmod 600") != std::string::npos);
  }
}

TEST_CASE("keys: a list that other users can write to is refused") {
  key_folder keys;
  auto list = allowed_path(keys.path());
  REQUIRE(read_allowed_keys(list));
  for (mode_t mode : {0664, 0646}) {
    CAPTURE(mode);
    REQUIRE(::chmod(list.c_str(), mode) == 0);
    CHECK_FALSE(read_allowed_keys(list));
  }
}

TEST_CASE("keys: a key file does not overwrite another") {
  key_folder keys;
  auto x = write_key_file(keys.file("a"), {});
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::conflict);
  CHECK(read_key_file(keys.file("a"))->name == "a");
}

TEST_CASE("keys: the secrets of the manual are refused by value") {
  temporary_directory folder;
  auto path = folder / "a.key";
  REQUIRE(
    write_key_file(path, {"a", role::node, "", b_key,
                          "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6", ""}));
  auto x = read_key_file(path);
  REQUIRE_FALSE(x);
  CHECK(x.failure().text.find("in a manual") != std::string::npos);
}

TEST_CASE("keys: a node needs its own key of the right role on the list") {
  key_folder keys;
  CHECK(keys.refusal("a") == "");
  CHECK(keys.refusal("b").find("b.key: cannot be opened") != std::string::npos);
  CHECK(keys.refusal("a", true).find("the node is a controller, its key is not")
        != std::string::npos);
  CHECK(keys.refusal("app").find("expected the key of a node")
        != std::string::npos);
  CHECK(keys.refusal("a", false, true).find("cluster.key: cannot be opened")
        != std::string::npos);
  REQUIRE(std::rename(keys.file("app").c_str(), keys.file("b").c_str()) == 0);
  CHECK(keys.refusal("b").find("is the key of 'app', not of 'b'")
        != std::string::npos);
}

TEST_CASE("keys: halves of different pairs do not match") {
  auto x = make_key_pair(), y = make_key_pair();
  CHECK(belong_together(x));
  CHECK_FALSE(belong_together({x.public_key, y.secret_key}));
}

// -- misconduct ---------------------------------------------------------------

TEST_CASE("misconduct: three offences in ten seconds suspend for a minute") {
  misconduct x;
  CHECK_FALSE(x.offends("eve", at(0s)));
  CHECK_FALSE(x.offends("eve", at(5s)));
  CHECK_FALSE(x.suspended("eve", at(5s)));
  CHECK(x.offends("eve", at(10s)));
  CHECK(x.suspended("eve", at(10s)));
  CHECK(x.suspended("eve", at(69s)));
  CHECK_FALSE(x.suspended("bob", at(10s)));
  CHECK_FALSE(x.suspended("eve", at(70s)));
}

TEST_CASE("misconduct: offences further apart do not suspend") {
  misconduct x;
  for (int i = 0; i < 100; ++i)
    CHECK_FALSE(x.offends("eve", at(i * 5001ms)));
  CHECK_FALSE(x.suspended("eve", at(500s)));
}

TEST_CASE("misconduct: after a suspension the count starts at zero") {
  misconduct x;
  for (int i = 0; i < 3; ++i)
    x.offends("eve", at(0s));
  CHECK_FALSE(x.offends("eve", at(61s)));
  CHECK_FALSE(x.offends("eve", at(62s)));
  CHECK(x.offends("eve", at(63s)));
}
