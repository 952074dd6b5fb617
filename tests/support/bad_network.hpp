// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/time.hpp"

namespace millrace::test {

/// Faults of the packets from one node to another. Each packet draws its own
/// faults.
struct network_faults {
  double lost = 0; ///< share of the packets; 1: the link is cut
  double doubled = 0;
  double damaged = 0;   ///< share of packets with a changed byte
  bool unended = false; ///< drops packets that end a connection: FIN and RST
  microseconds delay{0};
  microseconds jitter{0}; ///< extra delay up to this; reorders packets
};

/// A network of nodes with one host each. Each host is a network namespace, and
/// a bridge in one more namespace joins the hosts. Each received TCP packet
/// waits in a kernel queue (NFQUEUE) behind the wire until a thread of this
/// object decides its fate. Faults are injected at the receiver, because the
/// kernel reports a loss at the sender to the TCP of the sender. The kernel
/// splits queued data into packets as long as those of a real wire. The
/// namespaces live as long as this object and the processes in them. The
/// network of the machine itself is not changed.
class bad_network {
public:
  /// Needs root, or root in a user namespace (unshare -Ur). See problem().
  explicit bad_network(std::vector<std::string> nodes);
  ~bad_network();

  /// The reason why the network could not be made; empty: the network exists.
  const std::string& problem() const { return problem_; }

  /// The IP address of the host of a node.
  std::string address(const std::string& node) const;

  /// The words before a command that shall run on the host of a node.
  std::vector<std::string> enter(const std::string& node) const;

  /// Sets the faults of all links from now on. Packets already delayed keep
  /// their time of arrival.
  void all(const network_faults& x);
  void into(const std::string& node, const network_faults& x);
  void out_of(const std::string& node, const network_faults& x);
  void heal() { all({}); }

  struct counts {
    std::atomic<size_t> passed{0}, lost{0}, doubled{0}, damaged{0}, delayed{0};
  };
  const counts& packets() const { return counts_; }

private:
  class host;

  size_t index_of(const std::string& node) const;
  network_faults faults_of(size_t from, size_t to);
  bool make_hosts();
  bool join_hosts();
  void carry();

  std::vector<std::string> nodes_;
  std::string problem_;
  std::vector<std::unique_ptr<host>>
    hosts_; ///< the hosts of the nodes, then of the bridge
  std::mutex mutex_;
  std::vector<std::vector<network_faults>> faults_; ///< [from][to]
  counts counts_;
  std::atomic<bool> going_{true};
  std::thread thread_; ///< runs in another network namespace
};

} // namespace millrace::test
