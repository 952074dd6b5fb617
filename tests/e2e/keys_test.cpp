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

/// An encoded message without fields.
shared_bytes message_of(const header& x) {
  auto bytes = encode_header(x, steady_now());
  return shared_bytes::copy_of(std::string{bytes.text()} + '\x80');
}

/// Sends messages to the peer endpoint of a node under the key of another node.
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
    // Nodes read a new key within 500 ms. A refused client must connect again.
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

/// Returns true if a client without a key gets an error that mentions keys. The
/// error may list several reasons, because a node with keys may end the
/// connection before it can send a reason.
bool hears_of_keys(const std::string& address) {
  auto x = connection::open(address, 2s, "");
  return !x
         && x.failure().text.find("accepts only connections with a key")
              != std::string::npos;
}

/// The result of an attempt to connect.
ec knock(const std::string& address, const std::string& key) {
  auto x = connection::open(address, 2s, key);
  return x ? ec::ok : x.failure().code;
}

} // namespace

TEST_CASE("P13: with keys an endpoint accepts only clients with an allowed"
          " key") {
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
    // A key of another cluster: neither side has the key of the other.
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
  SUBCASE("the key of a node is not a client key") {
    CHECK(knock(c.clients(), c.key("w1")) == ec::bad_config);
  }
}

TEST_CASE("P13: a viewer reads and an operator orders through controllers") {
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
  // A worker cannot forward an order of an operator.
  auto passed_on = as("ops", "w1").ask<ack>("ctl/registry", more);
  REQUIRE_FALSE(passed_on);
  CHECK(passed_on.failure().text.find("is no controller") != std::string::npos);
}

TEST_CASE("P13: a viewer is still served after a forbidden command in the"
          " shell") {
  guarded_cluster c;
  auto shell = [&](std::vector<std::string> words) {
    std::vector<std::string> call{SHELL_PROGRAM, "--node", c.operators("ctl"),
                                  "--key", c.key("eve")};
    call.insert(call.end(), words.begin(), words.end());
    process p{call, c.cluster.folder() + "/shell.log"};
    return p.wait();
  };
  CHECK(shell({"trace", "1"}) == 1); // asks three nodes
  CHECK(shell({"log", "debug"}) == 1);
  CHECK(shell({"nodes"}) == 0);
}

TEST_CASE("P13: a tenant sees only its own models") {
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

TEST_CASE("P13: messages under a suspended key are ignored until the key is"
          " resumed") {
  guarded_cluster c;
  auto app = c.cluster.connect_client();
  REQUIRE(app.infer_one(ask_for("identity")).status == ec::ok);
  c.keys({"suspend", "app"});
  // Nodes read the list twice per second.
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

TEST_CASE("P13: a client refused for a suspended key is accepted after the key"
          " is resumed") {
  guarded_cluster c;
  auto app = c.cluster.connect_client();
  c.keys({"suspend", "app"});
  c.cluster["gw"].end(SIGKILL);
  c.cluster.start("gw");
  // Longer than a reconnect and its refusal.
  for (int i = 0; i < 300; ++i, ::usleep(10'000))
    REQUIRE(app.infer_one(ask_for("identity"), 100ms).status
            == ec::unavailable);
  c.keys({"resume", "app"});
  CHECK(eventually(
    [&] { return app.infer_one(ask_for("identity"), 200ms).status == ec::ok; },
    10s));
}

TEST_CASE("P13: a node is lost when its key is removed from the list and"
          " returns with its key") {
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
  SUBCASE("the key is removed while the node runs without peers") {
    CHECK(eventually(
      [&] {
        return c.cluster.log_of("w1").find("node=ctl reason=\"no heartbeat")
               != std::string::npos;
      },
      5s));
  }
  SUBCASE("the node is started and refused meanwhile") {
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

TEST_CASE("P13: a client is ignored after three forbidden messages") {
  guarded_cluster c;
  auto eve = operator_client::connect(c.operators("ctl"), 2s, c.key("eve"));
  REQUIRE(eve);
  for (int i = 0; i < 3; ++i)
    CHECK(eve->ask<ack>("./supervisor", drain{}).failure().code
          == ec::forbidden);
  CHECK_FALSE(eve->ask<member_list>("./supervisor", get_members{}, 500ms));
  CHECK(knock(c.operators("ctl"), c.key("eve")) == ec::forbidden);
  // Other clients are not affected.
  CHECK(knock(c.operators("ctl"), c.key("ops")) == ec::ok);
}

TEST_CASE("P13: a worker key can neither give orders nor impersonate another"
          " node") {
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

TEST_CASE("P13: the audit log contains each order of an operator and its"
          " outcome") {
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

TEST_CASE("P13: an unreadable list of keys changes nothing and is shown as a"
          " trouble until it is readable") {
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

TEST_CASE("P13: each endpoint refuses each message of another role") {
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

TEST_CASE("P13: a node does not start with the key of another node") {
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
