// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "transport/bulk/engine.hpp"
#include "transport/bulk/store_sources.hpp"
#include "transport/simulated/network.hpp"

namespace millrace {

class simulated_bulk;

/// The bulk endpoints of a simulated cluster.
class simulated_bulk_hosts {
public:
  /// What reaches a host of a chunk that another gives it. May change bytes, as
  /// a network does that no checksum guards.
  using wire = std::function<shared_bytes(
    const std::string& from, const std::string& to, const bulk_chunk& what,
    const shared_bytes& content)>;
  void put_between(wire x) { wire_ = std::move(x); }

private:
  friend class simulated_bulk;

  std::map<std::string, simulated_bulk*> by_address_;
  wire wire_ = [](auto&, auto&, auto&, auto& content) { return content; };
};

/// A node's bulk port in the simulated world: the production engine over
/// streams of the simulated network, one each way per connection. Who is asked
/// hears of a killed process when its connections break; of one that hangs or
/// is cut off when its node is told so by others (forget), which stands for the
/// silence that sockets notice in the same time.
class simulated_bulk : public bulk_port,
                       private bulk_carrier,
                       public std::enable_shared_from_this<simulated_bulk> {
public:
  /// Process, network and hosts outlive it. `stores` are what may be named as
  /// sources beside hosts.
  static std::shared_ptr<simulated_bulk>
  make(virtual_process& process, simulated_network& net, host_number host,
       std::string node, simulated_bulk_hosts& hosts,
       store_sources::stores stores = {});

  std::string address() const override { return "simulated://" + node_; }
  void offer(const std::string& content, const std::string& token,
             std::shared_ptr<bulk_content> x) override;
  void withdraw(const std::string& content) override;
  void pull(bulk_order x) override;
  void pull_from(const std::string& content,
                 std::vector<bulk_source> sources) override;
  void stop(const std::string& content) override;
  void clear() override;
  void forget(const std::string& node) override;

  /// The process is gone: nothing gets in or out from now on. Has to be called
  /// once, for connections know who they are between.
  void vanish();

private:
  simulated_bulk(virtual_process& process, simulated_network& net,
                 host_number host, std::string node,
                 simulated_bulk_hosts& hosts, store_sources::stores stores);

  /// From who asks to who is asked, until either is gone.
  struct connection {
    std::string link; ///< how the one who is asked calls it
    std::shared_ptr<simulated_bulk> asker, asked;
    std::unique_ptr<simulated_network::stream> there, back;
  };
  using shared_connection = std::shared_ptr<connection>;

  void ask(const bulk_source& whom, const bulk_ask& x) override;
  size_t window_of(const std::string& node) const override {
    return stores_.window_of(node);
  }
  void leave(const std::string& node) override;
  void give(const std::string& link, const bulk_chunk& what,
            shared_bytes content) override;
  void give_head(const std::string& link, const bulk_head& what,
                 std::vector<shared_bytes> pieces) override;
  void refuse(const std::string& link, const bulk_refusal& x) override;
  poster to_thread() override;

  template <class F>
  void run(F f);
  template <class F>
  void answer(const std::string& link, size_t bytes, F f);
  void go_on();
  timestamp now() const;
  void take_link(const shared_connection& x);
  void close(const shared_connection& x);
  void hear_of_end(const shared_connection& x);

  virtual_process& process_;
  simulated_network& net_;
  host_number host_;
  std::string node_;
  simulated_bulk_hosts& hosts_;
  bulk_engine engine_;
  store_sources stores_;
  bool vanished_ = false;
  uint64_t connections_ = 0;
  std::map<std::string, shared_connection> sources_; ///< by node
  std::map<std::string, shared_connection> links_;   ///< of who asks here
  timestamp armed_ = far_future;
};

} // namespace millrace
