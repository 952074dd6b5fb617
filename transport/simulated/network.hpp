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

/// One link, each way.
struct link_speed {
  bandwidth speed;
  microseconds latency{0};
  bandwidth per_flow{};
  bandwidth per_host{};
  MILLRACE_FIELDS(link_speed, speed, latency, per_flow, per_host)
  static constexpr auto notes() {
    return std::array{
      note{"what it carries; 0: not limited", 0},
      note{"from one end to the other", 0, 60},
      note{"what each connection that ends here gets at most, as a TCP flow"
           " of one thread does; 0: not limited; not for racks",
           0},
      note{"what all connections between this end and any one host get at"
           " most together; 0: not limited; not for racks",
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

/// Transfers between hosts that take a time by their size alone, whatever else
/// is on the way. The thesis prints no coefficients: these are straight lines
/// through the printed figures, 0.322 ms of a ping and 8.7 ms of 9,633,792
/// bytes.
struct transfer_law {
  bool independent = false;
  transfer_piece small, medium, large;
  MILLRACE_FIELDS(transfer_law, independent, small, medium, large)
  static constexpr auto notes() {
    return std::array{
      note{"whether messages between hosts take a time by their size alone, in"
           " place of links that all messages share"},
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

/// A network of two tiers: hosts hang on the switch of their rack (leaf), those
/// on one spine, which is never short; so do the clients and the object store.
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
      note{"of single hosts and racks, by name, in place of those above"},
      note{"latency between processes of one host", 0, 60},
      note{"what a process takes to receive one message, one after the other",
           0, 10},
      note{"mean of an exponential part of each message's latency", 0, 60},
      note{"messages of fewer bytes take their time on the path's slowest link"
           " but nothing from others: they are cheap to simulate"},
      note{"what a lost packet costs at first; each further loss twice as"
           " much",
           0.001, 60},
      note{"and at most this: then a new connection is made", 0.001, 600},
      note{"transfers that take a time by their size alone"}};
  }
};

using host_number = uint32_t;

/// What one direction of a link has carried.
struct link_use {
  /// "HOST up", to the switch, "HOST down", "HOST disk", or "HOST to HOST" of a
  /// limit between two.
  std::string name;
  double bytes = 0; ///< of messages that were sent whole
  /// Of these, of messages that share the link: not more than its room.
  double shared_bytes = 0;
  double room = 0; ///< bytes that it could have carried
};

/// Carries bytes between hosts in the simulated world: in order on each stream,
/// after the path's latencies, at the rate the fabric gives. What TCP would
/// hide is hidden: loss is delay, and a cut is delay too until a stream is
/// reset.
class simulated_network {
public:
  simulated_network(virtual_world& world, network_settings settings,
                    random_stream random);
  simulated_network(const simulated_network&) = delete;
  simulated_network& operator=(const simulated_network&) = delete;
  ~simulated_network();

  /// Racks begin to exist with their first host; hosts without one hang on the
  /// spine itself.
  host_number add_host(const std::string& name, const std::string& rack);
  host_number clients() const { return 0; }
  host_number store() const { return 1; }

  /// One way from a host to another.
  class stream;
  std::unique_ptr<stream> open(host_number from, host_number to);

  /// A host's disk: its streams share what it reads in a second.
  link_number add_disk(host_number of, bandwidth speed) {
    return add_link(hosts_[of].name + " disk", speed.bytes_per_second);
  }
  std::unique_ptr<stream> open_disk(host_number of, link_number disk);

  /// What a host's link carries; 0: it is not limited.
  bandwidth speed(host_number x) const {
    auto& link = hosts_[x].link;
    return {link.limited ? link.speed : 0};
  }

  /// What the path takes for a message of no bytes.
  microseconds latency(host_number from, host_number to) const;

  // -- faults -----------------------------------------------------------------

  /// Nothing gets from one host to the other until it is unblocked.
  void block(host_number from, host_number to);
  void unblock(host_number from, host_number to);
  bool blocked(host_number from, host_number to) const {
    return blocked_.contains({from, to});
  }

  /// The part of a host's packets, in and out, that is lost.
  void set_loss(host_number x, double part) { hosts_[x].loss = part; }

  /// What a host's every message takes longer.
  void set_delay(host_number x, microseconds y) { hosts_[x].delay = y; }

  /// The part of its link's speed that a host has.
  void set_speed(host_number x, double part);

  const network_settings& settings() const { return settings_; }

  /// Since the world began, of each link that is limited.
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
  std::vector<link_use> use_; ///< by link number; `room` is not kept here
  std::vector<host> hosts_;
  std::map<std::string, edge> racks_;
  std::set<std::pair<host_number, host_number>> blocked_;
  std::map<uint64_t, stream*> streams_; ///< in order of opening
  uint64_t last_stream_ = 0;
  /// Links of single flows that have ended, by what they carry.
  std::multimap<double, link_number> free_flow_links_;
  /// Links of all flows from one host to another, where these are limited.
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
  /// Which of its lives a stream is in: what was sent in an earlier one is
  /// void.
  struct life {
    bool over = false;
  };

public:
  /// `disk`: a host's own, which is all of the path.
  stream(simulated_network& net, host_number from, host_number to,
         std::optional<link_number> disk = std::nullopt);
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream();

  /// Has `arrived` happen when all the bytes are there: in a process, or with
  /// null outside of them.
  template <class F>
  void send(size_t bytes, virtual_process* where, F arrived) {
    push({bytes, where, [life = life_, arrived = std::move(arrived)]() mutable {
            if (!life->over)
              arrived();
          }});
  }

  /// What has not arrived never will.
  void reset();

  /// Messages not sent yet.
  size_t waiting() const { return waiting_.size(); }

private:
  friend class simulated_network;

  void push(parcel x);
  void measure_path();
  void go_on();
  void transmit(double bytes);
  void halt();
  void begin(parcel x);
  void sent(timestamp when);
  void count(size_t bytes, bool shared);
  void arrive(parcel x, timestamp when);

  simulated_network& net_;
  uint64_t number_;
  host_number from_, to_;
  std::vector<link_number> path_;        ///< with limits of flows, or a disk
  std::optional<link_number> flow_link_; ///< in the path of this stream alone
  double slowest_ = 0;
  microseconds latency_;
  std::deque<parcel> waiting_;
  parcel now_sending_;
  std::optional<double>
    halted_; ///< bytes left of it, while nothing gets through
  flow_number flow_ = 0;
  timestamp free_at_;      ///< its own part of the path
  timestamp last_arrival_; ///< nothing overtakes
  std::shared_ptr<life> life_ = std::make_shared<life>();
};

} // namespace millrace
