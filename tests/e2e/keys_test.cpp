// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sys/stat.h>

#include "runtime/bytes.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/guarded_cluster.hpp"
#include "transport/keys/key_book.hpp"
#include "transport/keys/key_file.hpp"
#include "transport/message_types.hpp"
#include "transport/zmq/socket.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

infer ask_for(const std::string& model) {
  infer out;
  out.model = model;
  out.inputs.push_back({"", floats({1, 4})});
  return out;
}

/// A message without fields, as it travels.
shared_bytes message_of(const header& x) {
  auto bytes = encode_header(x, steady_now());
  return shared_bytes::copy_of(std::string{bytes.text()} + '\x80');
}

/// Messages to a node's endpoint for peers, from who has some node's key.
class impostor {
public:
  impostor(guarded_cluster& c, const std::string& key, const std::string& node)
    : node_(node),
      to_(c.cluster.endpoint("w1", "peers")) {
    auto own = read_key_file(c.key(key));
    auto allowed =
      read_allowed_keys(allowed_path(c.cluster.folder() + "/keys"));
    REQUIRE((own && allowed));
    own_ = own->pair();
    server_ = allowed->keys.at("w1").public_key;
    connect();
  }

  template <class T>
  void say(const T& x) {
    auto message = make_wire_message(x, steady_now(), nullptr);
    message.head.to = "w1/supervisor";
    // A new key is known within half a second; who was refused before has to
    // connect anew.
    CHECK(eventually(
      [&] {
        ::usleep(50'000);
        auto sent = zeromq::send(socket_, {}, message, steady_now());
        if (!sent)
          connect();
        return sent;
      },
      5s));
  }

private:
  void connect() {
    socket_ = zeromq::make_dealer(context_, node_ + "@1@1@1", {});
    zeromq::connect_with(socket_, own_, server_);
    REQUIRE(zeromq::connect(socket_, to_));
  }

  std::string node_;
  std::string to_;
  key_pair own_;
  std::string server_;
  zmq::context_t context_{1};
  zmq::socket_t socket_;
};

/// Whether who has no key is told to have one: as refused, or as one reason of
/// several, for who has keys may end a connection before it can say so.
bool hears_of_keys(const std::string& address) {
  auto x = connection::open(address, 2s, "");
  return !x
         && x.failure().text.find("lets in only who has a key")
              != std::string::npos;
}

/// What becomes of an attempt to connect.
ec knock(const std::string& address, const std::string& key) {
  auto x = connection::open(address, 2s, key);
  return x ? ec::ok : x.failure().code;
}

} // namespace

TEST_CASE("P13: with keys only those come in whose key is allowed there") {
  guarded_cluster c;
  temporary_directory elsewhere;
  process p{{MILLRACE_PROGRAM, "keys", "new", elsewhere / "keys", "app",
             "--role", "client"},
            elsewhere / "keys.log"};
  REQUIRE(p.wait() == 0);

  SUBCASE("clients") {
    CHECK(knock(c.clients(), c.key("app")) == ec::ok);
    CHECK(hears_of_keys(c.clients()));
    CHECK(knock(c.clients(), c.key("acme-app")) == ec::forbidden);
    CHECK(knock(c.clients(), c.key("ops")) == ec::forbidden);
    // Of another cluster: neither side knows the other.
    CHECK(knock(c.clients(), elsewhere / "keys/app.key") != ec::ok);
    CHECK(knock(c.acme_endpoint(), c.key("acme-app")) == ec::ok);
    CHECK(knock(c.acme_endpoint(), c.key("app")) == ec::forbidden);
  }
  SUBCASE("operators") {
    CHECK(knock(c.operators("ctl"), c.key("ops")) == ec::ok);
    CHECK(knock(c.operators("ctl"), c.key("eve")) == ec::ok);
    CHECK(knock(c.operators("ctl"), c.key("app")) == ec::forbidden);
    CHECK(hears_of_keys(c.operators("ctl")));
  }
  SUBCASE("a node's key is no client's") {
    CHECK(knock(c.clients(), c.key("w1")) == ec::bad_config);
  }
}

TEST_CASE("P13: a viewer looks and an operator orders, by way of controllers") {
  guarded_cluster c;
  auto as = [&](const std::string& who, const std::string& node) {
    auto x = operator_client::connect(c.operators(node), 2s, c.key(who));
    REQUIRE(x);
    return std::move(*x);
  };
  set_model more;
  more.settings.model = "identity";
  more.settings.replicas = 2;
  auto viewer = as("eve", "ctl");
  CHECK(viewer.ask<model_list>("./registry", get_models{}));
  CHECK(viewer.ask<node_status>("w1/supervisor", get_status{}));
  auto refused = viewer.ask<ack>("./registry", more);
  REQUIRE_FALSE(refused);
  CHECK(refused.failure().code == ec::forbidden);
  CHECK(refused.failure().text == "a viewer may not say 'set_model'");
  CHECK(as("ops", "ctl").ask<ack>("./registry", more));
  // A worker's word does not count for an operator's.
  auto passed_on = as("ops", "w1").ask<ack>("ctl/registry", more);
  REQUIRE_FALSE(passed_on);
  CHECK(passed_on.failure().text.find("is no controller") != std::string::npos);
}

TEST_CASE("P13: a viewer who tries in the shell what it may not is listened to"
          " afterwards") {
  guarded_cluster c;
  auto shell = [&](std::vector<std::string> words) {
    std::vector<std::string> call{SHELL_PROGRAM, "--node", c.operators("ctl"),
                                  "--key", c.key("eve")};
    call.insert(call.end(), words.begin(), words.end());
    process p{call, c.cluster.folder() + "/shell.log"};
    return p.wait();
  };
  CHECK(shell({"trace", "1"}) == 1); // of three nodes
  CHECK(shell({"log", "debug"}) == 1);
  CHECK(shell({"nodes"}) == 0);
}

TEST_CASE("P13: a tenant sees its own models only") {
  guarded_cluster c;
  auto app = c.cluster.connect_client();
  CHECK(app.infer_one(ask_for("identity")).status == ec::ok);
  auto hidden = app.infer_one(ask_for("affine"));
  CHECK(hidden.status == ec::unknown_model);
  CHECK(hidden.error.find("there is identity") != std::string::npos);
  CHECK(app.models()->size() == 1);
  auto acme = client::connect(c.acme_endpoint(), 2s, c.key("acme-app"));
  REQUIRE(acme);
  CHECK(acme->infer_one(ask_for("affine")).status == ec::ok);
  CHECK(acme->models()->size() == 2);
}

TEST_CASE("P13: a key that is suspended is not listened to, until it is"
          " resumed") {
  guarded_cluster c;
  auto app = c.cluster.connect_client();
  REQUIRE(app.infer_one(ask_for("identity")).status == ec::ok);
  c.keys({"suspend", "app"});
  // The list is looked at twice a second.
  CHECK(eventually(
    [&] {
      return app.infer_one(ask_for("identity"), 100ms).status
             == ec::unavailable;
    },
    2s));
  CHECK(knock(c.clients(), c.key("app")) == ec::forbidden);
  c.expect_audit("gw", "app (client) was refused at clients/default, from ");
  c.expect_audit("gw", ": its key is suspended");
  c.keys({"resume", "app"});
  CHECK(eventually(
    [&] { return app.infer_one(ask_for("identity"), 200ms).status == ec::ok; },
    2s));
}

TEST_CASE(
  "P13: who was refused because its key was suspended is let in once it is"
  " resumed, though it asks one thing at a time") {
  guarded_cluster c;
  auto app = c.cluster.connect_client();
  c.keys({"suspend", "app"});
  c.cluster["gw"].end(SIGKILL);
  c.cluster.start("gw");
  // Longer than it takes to come back, and be refused.
  for (int i = 0; i < 300; ++i, ::usleep(10'000))
    REQUIRE(app.infer_one(ask_for("identity"), 100ms).status
            == ec::unavailable);
  c.keys({"resume", "app"});
  CHECK(eventually(
    [&] { return app.infer_one(ask_for("identity"), 200ms).status == ec::ok; },
    10s));
}

TEST_CASE("P13: a node whose key is taken off the list is lost, and back with"
          " it") {
  guarded_cluster c;
  auto ctl = operator_client::connect(c.operators("ctl"), 2s, c.key("ops"));
  REQUIRE(ctl);
  auto sees = [&](const std::string& node) {
    auto x = ctl->ask<member_list>("./supervisor", get_members{});
    return x && std::any_of(x->peers.begin(), x->peers.end(), [&](auto& p) {
             return p.name == node;
           });
  };
  REQUIRE(sees("w1"));
  c.keys({"suspend", "w1"});
  CHECK(eventually([&] { return !sees("w1"); }, 3s));
  SUBCASE("while it runs, and hears of nobody any more") {
    CHECK(eventually(
      [&] {
        return c.cluster.log_of("w1").find("node=ctl reason=\"no heartbeat")
               != std::string::npos;
      },
      5s));
  }
  SUBCASE("when it was started meanwhile, and turned away") {
    c.cluster["w1"].end(SIGKILL);
    c.cluster.start("w1");
    CHECK(eventually(
      [&] {
        return c.cluster.log_of("w1").find("bus.not_let_in")
               != std::string::npos;
      },
      5s));
  }
  c.keys({"resume", "w1"});
  CHECK(eventually([&] { return sees("w1"); }, 15s));
  CHECK(c.cluster.wait_ready());
}

TEST_CASE("P13: who says three things they may not is not listened to") {
  guarded_cluster c;
  auto eve = operator_client::connect(c.operators("ctl"), 2s, c.key("eve"));
  REQUIRE(eve);
  for (int i = 0; i < 3; ++i)
    CHECK(eve->ask<ack>("./supervisor", drain{}).failure().code
          == ec::forbidden);
  CHECK_FALSE(eve->ask<member_list>("./supervisor", get_members{}, 500ms));
  CHECK(knock(c.operators("ctl"), c.key("eve")) == ec::forbidden);
  // Others are not touched by it.
  CHECK(knock(c.operators("ctl"), c.key("ops")) == ec::ok);
}

TEST_CASE("P13: a worker's key gives no orders, and makes nobody another") {
  guarded_cluster c;
  c.keys({"new", "rogue", "other", "--role", "node"});
  deploy order;
  order.epoch = 1'000'000;
  order.what.replica = "affine.1.9";
  order.what.model = "affine";
  order.what.version = 1;
  impostor worker{c, "rogue", "rogue"};
  worker.say(order);
  impostor liar{c, "other", "ctl"};
  liar.say(order);
  hello claim;
  claim.cluster = "test";
  claim.self = {"rogue", 1, "tcp://127.0.0.1:9", {"controller"}, ""};
  claim.link = claim.start = 1;
  worker.say(claim);
  for (auto line : {"rogue (node) said deploy", "other (node) spoke as 'ctl'",
                    "rogue (node) claimed to be a controller"})
    c.expect_audit("w1", line);
  auto status = operator_client::connect(c.operators("w1"), 2s, c.key("ops"))
                  ->ask<node_status>("./supervisor", get_status{});
  REQUIRE(status);
  for (auto& replica : status->replicas)
    CHECK(replica.what.replica != "affine.1.9");
}

TEST_CASE("P13: what an operator orders is in the audit log, and what came of"
          " it") {
  guarded_cluster c;
  auto ops = operator_client::connect(c.operators("ctl"), 2s, c.key("ops"));
  set_model more;
  more.settings.model = "identity";
  more.settings.replicas = 2;
  REQUIRE(ops->ask<ack>("ctl/registry", more));
  CHECK_FALSE(ops->ask<ack>("ctl/registry", forget_model{"nope"}));
  for (auto line :
       {"ops (operator) said set_model to 'ctl/registry': ",
        "\"model\":\"identity\"",
        "ops (operator) was told: set_model to 'ctl/registry' is done",
        "ops (operator) was told: forget_model to 'ctl/registry' is refused:"
        " 'model 'nope' is not registered'"})
    c.expect_audit("ctl", line);
}

TEST_CASE("P13: a list of keys that cannot be read changes nothing, and is a"
          " trouble that shows until it can") {
  guarded_cluster c;
  auto list = allowed_path(c.cluster.folder() + "/keys");
  auto app = c.cluster.connect_client();
  auto shows = [&](bool wanted) {
    return c.cluster.wait_status("gw", [&](const node_status& x) {
      auto there =
        std::any_of(x.troubles.begin(), x.troubles.end(), [&](auto& text) {
          return text.starts_with("keys: ")
                 && text.find("can write to it") != std::string::npos;
        });
      return there == wanted;
    });
  };
  CHECK(shows(false));
  REQUIRE(::chmod(list.c_str(), 0666) == 0);
  CHECK(shows(true));
  CHECK(app.infer_one(ask_for("identity")).status == ec::ok);
  REQUIRE(::chmod(list.c_str(), 0644) == 0);
  CHECK(shows(false));
}

TEST_CASE("P13: at each endpoint each message of another role is refused") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity}\n",
                 bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  size_t refused = 0;
  for (auto [what, who] : {std::pair{"clients", role::client},
                           std::pair{"operators", role::operating}}) {
    auto x = connection::open(c.endpoint("all", what), 2s, "");
    REQUIRE(x);
    uint64_t id = 0;
    for (auto type : message_names()) {
      CAPTURE(what);
      CAPTURE(std::string{type});
      if (may_say(who, type))
        continue;
      header head;
      head.v = protocol_version;
      head.t = type;
      head.id = ++id;
      head.to = "all/supervisor";
      REQUIRE((*x)->send({message_of(head), {}}));
      auto answer = (*x)->receive(2s);
      REQUIRE(answer);
      CHECK(answer->first.text().find("forbidden") != std::string::npos);
      ++refused;
    }
  }
  CHECK(refused > 60);
  CHECK(c.connect_client().infer_one(ask_for("identity")).status == ec::ok);
}

TEST_CASE("P13: a node does not start with a key that is not its own") {
  guarded_cluster c;
  auto& x = c.cluster;
  x["w1"].end(SIGKILL);
  auto start = [&] {
    x.start("w1");
    auto status = x["w1"].wait();
    CHECK(status == 78);
    return x.log_of("w1");
  };
  auto file = c.key("w1");
  REQUIRE(std::rename(file.c_str(), (file + ".away").c_str()) == 0);
  CHECK(start().find("w1.key: cannot be opened") != std::string::npos);
  REQUIRE(std::rename((file + ".away").c_str(), file.c_str()) == 0);
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  CHECK(start().find("chmod 600") != std::string::npos);
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  c.keys({"remove", "w1"});
  CHECK(start().find("is not on the list") != std::string::npos);
}
