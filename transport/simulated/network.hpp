// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/random.hpp"
#include "runtime/units.hpp"
#include "runtime/virtual/world.hpp"
#include "transport/simulated/fabric.hpp"

namespace millrace {

/// One link, in each direction.
struct link_speed {
  bandwidth speed;
  microseconds latency{0};
  bandwidth per_flow{};
  bandwidth per_host{};
  MILLRACE_FIELDS(link_speed, speed, latency, per_flow, per_host)
  static constexpr auto notes() {
    return std::array{
      note{"bandwidth; 0: not limited", 0},
      note{"latency from one end to the other", 0, 60},
      note{"limit of each connection that ends here, as of a TCP flow of one"
           " thread; 0: not limited; not for racks",
           0},
      note{"limit of all connections together between this end and any one"
           " host; 0: not limited; not for racks",
           0}};
  }
};

/// Seconds to transfer x bytes: a * x^b + c (interference-aware framework,
/// section 4.6).
struct transfer_piece {
  double a = 8.7e-10;
  double b = 1;
  double c = 3.22e-4;
  MILLRACE_FIELDS(transfer_piece, a, b, c)
  static constexpr auto notes() {
    return std::array{note{"factor, in seconds", 0, 1}, note{"power", 0, 4},
                      note{"seconds of any transfer", 0, 60}};
  }
  double seconds(double bytes) const { return a * std::pow(bytes, b) + c; }
};

/// Transfers between hosts whose time depends on their size alone, not on other
/// traffic. The thesis prints no coefficients: these are straight lines through
/// its figures, 0.322 ms for a ping and 8.7 ms for 9,633,792 bytes.
struct transfer_law {
  bool independent = false;
  transfer_piece small, medium, large;
  MILLRACE_FIELDS(transfer_law, independent, small, medium, large)
  static constexpr auto notes() {
    return std::array{
      note{"whether the transfer time between hosts depends on the size"
           " alone, in place of links that all messages share"},
      note{"up to 1 MB: a * bytes^b + c"}, note{"up to 100 MB"},
      note{"beyond"}};
  }

  double seconds(size_t bytes) const {
    auto& piece = bytes <= 1'000'000     ? small
                  : bytes <= 100'000'000 ? medium
                                         : large;
    return piece.seconds(static_cast<double>(bytes));
  }
};

/// A network of two tiers: hosts are connected to the switch of their rack
/// (leaf), the racks to one spine, which is never a bottleneck. The clients and
/// the object store are connected to the spine.
struct network_settings {
  link_speed host{{1.25e9}, microseconds{10}};
  link_speed rack{{0}, microseconds{5}};
  link_speed store{{1.25e8}, microseconds{10'000}};
  link_speed clients{{0}, microseconds{50}};
  std::map<std::string, link_speed> links;
  microseconds local{10};
  microseconds per_message{0};
  microseconds jitter{0};
  byte_count contend_from{16'384};
  microseconds retransmit{200'000};
  microseconds reconnect{2'000'000};
  transfer_law transfer;
  MILLRACE_FIELDS(network_settings, host, rack, store, clients, links, local,
                  per_message, jitter, contend_from, retransmit, reconnect,
                  transfer)
  static constexpr auto notes() {
    return std::array{
      note{"between a host and its rack's switch"},
      note{"between a rack's switch and the spine"},
      note{"between the object store and the spine"},
      note{"between all clients and the spine"},
      note{"links of single hosts and racks, by name, in place of the"
           " defaults above"},
      note{"latency between processes of one host", 0, 60},
      note{"time of a process to receive one message; a process receives one"
           " message at a time",
           0, 10},
      note{"mean of an exponential part of each message's latency", 0, 60},
      note{"messages of fewer bytes take the time of the path's slowest"
           " link, but no bandwidth from others: they are cheap to simulate"},
      note{"delay of the first loss of a packet; each further loss doubles"
           " the delay",
           0.001, 60},
      note{"maximum of that delay; then a new connection is made", 0.001, 600},
      note{"transfers with a time that depends on their size alone"}};
  }
};

using host_number = uint32_t;

/// Load of one direction of a link.
struct link_use {
  /// "HOST up" (to the switch), "HOST down", "HOST disk", or "HOST to HOST" for
  /// a limit between two hosts.
  std::string name;
  double bytes = 0; ///< of completely sent messages
  /// Part of `bytes` in messages that share the link; at most `room`.
  double shared_bytes = 0;
  double room = 0; ///< bytes that the link could have carried
};

/// Carries bytes between hosts in the simulated world: in order on each stream,
/// after the latencies of the path, at the rate given by the fabric. Effects
/// that TCP hides are hidden: loss becomes delay, and so does a cut until the
/// stream is reset.
class simulated_network {
public:
  simulated_network(virtual_world& world, network_settings settings,
                    random_stream random);
  simulated_network(const simulated_network&) = delete;
  simulated_network& operator=(const simulated_network&) = delete;
  ~simulated_network();

  /// A rack is created with its first host; hosts without a rack are connected
  /// to the spine.
  host_number add_host(const std::string& name, const std::string& rack);
  host_number clients() const { return 0; }
  host_number store() const { return 1; }

  /// One direction between two hosts.
  class stream;
  std::unique_ptr<stream> open(host_number from, host_number to);

  /// A host's disk: its streams share its read bandwidth.
  link_number add_disk(host_number of, bandwidth speed) {
    return add_link(hosts_[of].name + " disk", speed.bytes_per_second);
  }
  std::unique_ptr<stream> open_disk(host_number of, link_number disk);

  /// Bandwidth of a host's link; 0: not limited.
  bandwidth speed(host_number host) const {
    auto& link = hosts_[host].link;
    return {link.limited ? link.speed : 0};
  }

  /// Latency of the path for an empty message.
  microseconds latency(host_number from, host_number to) const;

  // -- faults -----------------------------------------------------------------

  /// Blocks all bytes from one host to the other until unblock().
  void block(host_number from, host_number to);
  void unblock(host_number from, host_number to);
  bool blocked(host_number from, host_number to) const {
    return blocked_.contains({from, to});
  }

  /// Fraction of a host's packets, in and out, that is lost.
  void set_loss(host_number host, double part) { hosts_[host].loss = part; }

  /// Additional latency of each message of a host.
  void set_delay(host_number host, microseconds additional) {
    hosts_[host].delay = additional;
  }

  /// Fraction of its link's speed that a host has.
  void set_speed(host_number host, double part);

  const network_settings& settings() const { return settings_; }

  /// Load of each limited link since the start of the world.
  std::vector<link_use> use() const;

  virtual_world& world() { return world_; }

private:
  struct edge {
    link_number up = 0, down = 0;
    bool limited = false;
    double speed = 0;
    microseconds latency{0};
    double per_flow = 0; ///< 0: not limited
    double per_host = 0; ///< 0: not limited
  };
  struct host {
    std::string name;
    edge link;
    std::string rack;
    double loss = 0;
    microseconds delay{0};
  };

  link_number add_link(const std::string& shown_as, double bytes_per_second);
  edge make_edge(const std::string& name, const link_speed& usual,
                 const std::string& shown_as);
  std::vector<link_number> path(host_number from, host_number to) const;
  std::optional<link_number> take_flow_link(host_number from, host_number to);
  std::optional<link_number> find_pair_link(host_number from, host_number to);
  microseconds extra(host_number from, host_number to);
  void pump();
  void arm();

  virtual_world& world_;
  network_settings settings_;
  random_stream random_;
  fabric fabric_;
  std::vector<link_use> use_; ///< by link number; `room` is not stored here
  std::vector<host> hosts_;
  std::map<std::string, edge> racks_;
  std::set<std::pair<host_number, host_number>> blocked_;
  std::map<uint64_t, stream*> streams_; ///< in order of opening
  uint64_t last_stream_ = 0;
  /// Free links for limits of single flows, by capacity.
  std::multimap<double, link_number> free_flow_links_;
  /// Links for limits between two hosts.
  std::map<std::pair<host_number, host_number>, link_number> pair_links_;
  std::unordered_map<flow_number, stream*> sending_;
  std::vector<timestamp> armed_; ///< the next one last
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// Bytes on their way from one host to another, in order.
class simulated_network::stream {
  struct parcel {
    size_t bytes = 0;
    virtual_process* where = nullptr;
    action arrived;
  };
  /// Period between two resets of a stream: its messages are void after the
  /// end.
  struct life {
    bool over = false;
  };

public:
  /// `disk`: the disk of the host, which is then the whole path.
  stream(simulated_network& net, host_number from, host_number to,
         std::optional<link_number> disk = std::nullopt);
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream();

  /// Runs `arrived` once all the bytes have arrived: in a process, or with null
  /// outside of all processes.
  template <class F>
  void send(size_t bytes, virtual_process* where, F arrived) {
    push({bytes, where, [life = life_, arrived = std::move(arrived)]() mutable {
            if (!life->over)
              arrived();
          }});
  }

  /// Drops all bytes that have not arrived.
  void reset();

  /// Messages not sent yet.
  size_t waiting() const { return waiting_.size(); }

private:
  friend class simulated_network;

  void push(parcel sent);
  void measure_path();
  void go_on();
  void transmit(double bytes);
  void halt();
  void begin(parcel sent);
  void sent(timestamp when);
  void count(size_t bytes, bool shared);
  void arrive(parcel sent, timestamp when);

  simulated_network& net_;
  uint64_t number_;
  host_number from_, to_;
  std::vector<link_number> path_; ///< with links for flow limits, or a disk
  /// In `path_`, used by this stream alone.
  std::optional<link_number> flow_link_;
  double slowest_ = 0;
  microseconds latency_;
  std::deque<parcel> waiting_;
  parcel now_sending_;
  /// Bytes left of now_sending_ while the path is blocked.
  std::optional<double> halted_;
  flow_number flow_ = 0;
  timestamp free_at_;      ///< its own part of the path
  timestamp last_arrival_; ///< messages keep their order
  std::shared_ptr<life> life_ = std::make_shared<life>();
};

} // namespace millrace
