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

/// The bulk endpoints of a simulated cluster, by address.
class simulated_bulk_hosts {
public:
  /// Maps a sent chunk to the received one. May change bytes, as a network
  /// without checksums would.
  using wire = std::function<shared_bytes(
    const std::string& from, const std::string& to, const bulk_chunk& what,
    const shared_bytes& content)>;
  void put_between(wire between) { wire_ = std::move(between); }

private:
  friend class simulated_bulk;

  std::map<std::string, simulated_bulk*> by_address_;
  wire wire_ = [](auto&, auto&, auto&, auto& content) { return content; };
};

/// A node's bulk port in the simulated world: the production engine over
/// streams of the simulated network, one per direction and connection. The
/// source detects a killed process by its broken connections. It detects a
/// process that hangs or is cut off when its own node reports the loss
/// (forget), which stands for the silence that sockets would detect in the same
/// time.
class simulated_bulk : public bulk_port,
                       private bulk_carrier,
                       public std::enable_shared_from_this<simulated_bulk> {
public:
  /// Process, network and hosts outlive it. `stores` may be named as sources
  /// beside hosts.
  static std::shared_ptr<simulated_bulk>
  make(virtual_process& process, simulated_network& net, host_number host,
       std::string node, simulated_bulk_hosts& hosts,
       store_sources::stores stores = {});

  std::string address() const override { return "simulated://" + node_; }
  void offer(const std::string& content, const std::string& token,
             std::shared_ptr<bulk_content> body) override;
  void withdraw(const std::string& content) override;
  void pull(bulk_order order) override;
  void pull_from(const std::string& content,
                 std::vector<bulk_source> sources) override;
  void stop(const std::string& content) override;
  void clear() override;
  void forget(const std::string& node) override;

  /// The process is gone: nothing is sent or received any longer. Must be
  /// called once, since connections hold references to both ends.
  void vanish();

private:
  simulated_bulk(virtual_process& process, simulated_network& net,
                 host_number host, std::string node,
                 simulated_bulk_hosts& hosts, store_sources::stores stores);

  /// From the requesting node to the source, until either end is gone.
  struct connection {
    std::string link; ///< the source's name for it
    std::shared_ptr<simulated_bulk> asker, asked;
    std::unique_ptr<simulated_network::stream> there, back;
  };
  using shared_connection = std::shared_ptr<connection>;

  void ask(const bulk_source& whom, const bulk_ask& request) override;
  size_t window_of(const std::string& node) const override {
    return stores_.window_of(node);
  }
  void leave(const std::string& node) override;
  void give(const std::string& link, const bulk_chunk& what,
            shared_bytes content) override;
  void give_head(const std::string& link, const bulk_head& what,
                 std::vector<shared_bytes> pieces) override;
  void refuse(const std::string& link, const bulk_refusal& answer) override;
  poster to_thread() override;

  template <class F>
  void run(F f);
  template <class F>
  void answer(const std::string& link, size_t bytes, F f);
  void go_on();
  timestamp now() const;
  void take_link(const shared_connection& connection);
  void close(const shared_connection& connection);
  void hear_of_end(const shared_connection& connection);

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
  /// From requesting nodes, by link.
  std::map<std::string, shared_connection> links_;
  timestamp armed_ = far_future;
};

} // namespace millrace
