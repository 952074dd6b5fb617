// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "transport/operator_session.hpp"
#include "transport/simulated/network.hpp"
#include "transport/switchboard.hpp"

namespace millrace {

class simulated_links;

/// Bugs that can be planted in the simulated world, to check that tests find
/// them.
enum class planted_bug : uint8_t {
  none,
  double_answer, ///< a client gets an answer twice
  lost_answer,   ///< a client gets no answer
  wrong_client,  ///< a client gets the answer to another request
  lost_message,  ///< a message between nodes is lost silently
  stale_link,    ///< messages of an ended link are still accepted
  dead_link,     ///< an ended link never returns
  open_door,     ///< operators may send messages of nodes
  forgotten,     ///< a device keeps an unloaded model
  chance,        ///< a result depends on a value outside the seed
};

constexpr auto names_of(planted_bug) {
  return name_table{"none",         "double_answer", "lost_answer",
                    "wrong_client", "lost_message",  "stale_link",
                    "dead_link",    "open_door",     "forgotten",
                    "chance"};
}

/// Observer of the messages between nodes, and between nodes and clients.
class simulated_outside {
public:
  virtual ~simulated_outside() = default;

  /// A gateway's process has read a client's request (on_cancel_read: a
  /// cancel).
  virtual void on_read(const member& /*gateway*/, uint64_t /*id*/,
                       timestamp /*when*/) {}
  virtual void on_cancel_read(const member& /*gateway*/, uint64_t /*id*/,
                              timestamp /*when*/) {}
  /// A gateway sends its answer.
  virtual void on_answered(const member& /*gateway*/, uint64_t /*id*/,
                           const infer_reply&, timestamp /*when*/) {}
  /// The answer has reached its client.
  virtual void on_reply(const session& /*to*/, uint64_t /*id*/,
                        const infer_reply&, timestamp /*when*/) {}
  virtual void on_operator_answer(const std::string& /*node*/, uint64_t /*id*/,
                                  const caf::message&) {}
  /// A link from the first node's view is up or down.
  virtual void on_link(const member& /*who*/, const member& /*whom*/,
                       bool /*up*/) {}
  /// A node has sent a message to another.
  virtual void on_posted(const member& /*from*/, const member& /*to*/,
                         const wire_message&, timestamp /*when*/) {}
  /// A node is about to handle a message from another node.
  virtual void on_delivered(const member& /*from*/, const member& /*to*/,
                            const header&, timestamp /*when*/) {}
};

/// A node's bus in the simulated world: the production switchboard and codec
/// over the simulated network. simulated_links decides which nodes are linked.
class simulated_bus : public switchboard_bus {
public:
  /// `world` and `outside` outlive it.
  simulated_bus(virtual_process& process, simulated_links& links, member self,
                host_number host, simulated_outside& outside);
  ~simulated_bus() override;

  const member& self() const override { return self_; }
  void subscribe(caf::strong_actor_ptr actor, std::string role) override;
  member_list members() const override;
  void serve_clients(caf::strong_actor_ptr actor) override { gateway_ = actor; }
  void answer(const session& to, client_tag tag, infer_reply reply) override;
  void answer(const session& to, client_tag tag,
              model_list_reply reply) override;

  virtual_process& process() { return process_; }
  host_number host() const { return host_; }

  //  -- called from outside, at the current time
  //  ---------------------------------

  /// A client sends a request; the deadline counts from now (max: none).
  void client_sends(const session& from, uint64_t id, infer wanted,
                    microseconds deadline, int32_t priority = 0);
  void client_cancels(const session& from, uint64_t id);

  /// An operator sends a message, as actor-shell would.
  template <declared T>
  void operator_says(uint64_t id, std::string to, const T& message) {
    auto y = make_wire_message(message, timestamp{}, nullptr);
    y.head.id = id;
    y.head.to = std::move(to);
    deliver_from_operator(std::move(y));
  }

  /// The process is gone: nothing is sent or received any longer.
  void vanish();

private:
  friend class simulated_links;

  bool carry(const std::string& node, uint64_t incarnation,
             wire_message message) override;
  uint64_t incarnation_of(std::string_view node) const override;

  void arrive(size_t from, const shared_bytes& head,
              const wire_message& message);
  template <class F>
  void when_received(F what);
  void to_gateway(caf::message content);
  void deliver_from_operator(wire_message message);
  void tell(const caf::strong_actor_ptr& to, caf::message content);
  void tell_subscribers(const member& about, const caf::message& content);
  void lose(size_t number, const member& whom, const std::string& reason,
            bool left);
  simulated_network::stream& stream_to(size_t number, host_number host);

  struct subscriber {
    caf::weak_actor_ptr who;
    std::string role;
  };

  virtual_process& process_;
  simulated_links& links_;
  member self_;
  host_number host_;
  simulated_outside& outside_;
  size_t number_ = 0; ///< of this start among all starts of all nodes
  bool vanished_ = false;
  std::vector<subscriber> subscribers_;
  caf::strong_actor_ptr gateway_;
  operator_sessions operators_;
  /// To other nodes, by number of the start.
  std::map<size_t, std::unique_ptr<simulated_network::stream>> streams_;
  std::unique_ptr<simulated_network::stream> from_clients_, to_clients_;
  timestamp busy_until_; ///< receiving
};

} // namespace millrace
