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

/// What befalls the packets from one node to another, each by its own chance.
struct network_faults {
  double lost = 0; ///< share of the packets; 1: the way is cut
  double doubled = 0;
  double damaged = 0;   ///< a byte is another one
  bool unended = false; ///< what ends a connection is lost: FIN and RST
  microseconds delay{0};
  microseconds jitter{0}; ///< up to so much more: they overtake each other
};

/// A network of nodes with a host each: network namespaces, joined by a bridge
/// in one more. Every TCP packet waits where it is received, behind the wire,
/// in a queue of the kernel (NFQUEUE) until a thread of this says what becomes
/// of it: what is lost at the sender is no loss, since its own TCP is told.
/// The kernel cuts what it queues into packets as long as those of a real wire.
/// All of it lives in the namespaces, and they as long as this and what runs in
/// them; the machine's own network is left alone.
class bad_network {
public:
  /// Needs root, or a user namespace in which one is (unshare -Ur): see
  /// problem().
  explicit bad_network(std::vector<std::string> nodes);
  ~bad_network();

  /// Why there is no such network; empty: there is.
  const std::string& problem() const { return problem_; }

  /// Of a node's host.
  std::string address(const std::string& node) const;

  /// What comes before a command that is to run on a node's host.
  std::vector<std::string> enter(const std::string& node) const;

  /// From now on; what is delayed already arrives when it was to.
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
    hosts_; ///< of the nodes, then the bridge's
  std::mutex mutex_;
  std::vector<std::vector<network_faults>> faults_; ///< [from][to]
  counts counts_;
  std::atomic<bool> going_{true};
  std::thread thread_; ///< its own network namespace is another one
};

} // namespace millrace::test
