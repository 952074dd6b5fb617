// SPDX-License-Identifier: Apache-2.0
#include "tests/support/bad_network.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/bytes.hpp"
#include "runtime/random.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace millrace::test {

namespace {

constexpr uint32_t most_held = 65'536; ///< packets queued per host
constexpr size_t ip_source_at = 12;    ///< in an IPv4 header
constexpr int headers = 40;            ///< IPv4's and TCP's, without options

/// Returns true if the packet ends its TCP connection (FIN) or refuses it
/// (RST).
bool is_end(const unsigned char* packet) {
  constexpr size_t flags_at = 13; // in a TCP header
  constexpr unsigned char fin_or_rst = 5;
  auto ip = 4u * (packet[0] & 15u);
  return (packet[ip + flags_at] & fin_or_rst) != 0;
}

} // namespace

/// A network namespace and the delayed packets to be received in it.
class bad_network::host {
public:
  /// Moves the calling thread into a new namespace. Without the rights to do so
  /// there() is false.
  explicit host(bad_network& whole, size_t index)
    : whole_(whole),
      index_(index),
      random_(index) {
    if (::unshare(CLONE_NEWNET) == 0)
      space_ = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  }
  ~host() {
    if (queue_ != nullptr)
      nfq_destroy_queue(queue_);
    if (netlink_ != nullptr)
      nfq_close(netlink_);
    for (auto fd : {raw_, space_})
      if (fd >= 0)
        ::close(fd);
  }
  host(const host&) = delete;
  host& operator=(const host&) = delete;

  bool there() const { return space_ >= 0; }
  int fd() const { return nfq_fd(netlink_); }

  /// A path of the namespace that other processes of this user can open.
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/"
           + std::to_string(space_);
  }

  /// Starts to receive packets from the kernel. Must run in the namespace.
  bool listen() {
    // Packets sent on this socket reach the same host by its loopback device.
    raw_ = ::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    netlink_ = nfq_open();
    if (raw_ < 0 || netlink_ == nullptr)
      return false;
    queue_ = nfq_create_queue(
      netlink_, 0,
      [](nfq_q_handle*, nfgenmsg*, nfq_data* x, void* self) {
        static_cast<host*>(self)->on_packet(x);
        return 0;
      },
      this);
    if (queue_ == nullptr
        || nfq_set_mode(queue_, NFQNL_COPY_PACKET, 0xffff) != 0
        || nfq_set_queue_maxlen(queue_, most_held) != 0)
      return false;
    nfnl_rcvbufsiz(nfq_nfnlh(netlink_), 16u << 20);
    ::fcntl(fd(), F_SETFL, O_NONBLOCK);
    return true;
  }

  void take() {
    alignas(nlmsghdr) std::array<char, 0x11000> buffer;
    for (;;) {
      auto n = ::recv(fd(), buffer.data(), buffer.size(), 0);
      if (n > 0)
        nfq_handle_packet(netlink_, buffer.data(), static_cast<int>(n));
      else if (errno != ENOBUFS) // ENOBUFS: the kernel dropped packets, which
                                 // is allowed here
        return;
    }
  }

  /// Forwards the packets that are due and returns the time of the next one.
  timestamp release(timestamp time) {
    while (!held_.empty() && held_.begin()->first <= time) {
      let_go(held_.begin()->second);
      held_.erase(held_.begin());
    }
    return held_.empty() ? far_future : held_.begin()->first;
  }

private:
  struct packet {
    uint32_t id = 0;
    std::vector<unsigned char> replaced_by; ///< empty: unchanged
    std::vector<unsigned char> again;       ///< a duplicate; empty: none
  };

  void on_packet(nfq_data* x) {
    unsigned char* bytes = nullptr;
    auto size = nfq_get_payload(x, &bytes);
    packet p{ntohl(nfq_get_msg_packet_hdr(x)->packet_id), {}, {}};
    if (size < headers)
      return let_go(p);
    auto faults = whole_.faults_of(bytes[ip_source_at + 3] - 1u, index_);
    auto happens = [&](double share, std::atomic<size_t>& count) {
      auto yes = random_.uniform() < share;
      count += yes;
      return yes;
    };
    auto& counts = whole_.counts_;
    auto lost = faults.unended && is_end(bytes) ? 1 : faults.lost;
    if (happens(lost, counts.lost)) {
      nfq_set_verdict(queue_, p.id, NF_DROP, 0, nullptr);
      return;
    }
    if (happens(faults.doubled, counts.doubled))
      p.again.assign(bytes, bytes + size);
    if (happens(faults.damaged, counts.damaged)) {
      p.replaced_by.assign(bytes, bytes + size);
      p.replaced_by[p.replaced_by.size() - 1 - random_.below(20)] ^= 0x40;
    }
    auto wait =
      faults.delay
      + microseconds{static_cast<int64_t>(
        random_.uniform() * static_cast<double>(faults.jitter.count()))};
    if (wait == 0us)
      return let_go(p);
    ++counts.delayed;
    held_.emplace(steady_now() + wait, std::move(p));
  }

  void let_go(const packet& x) {
    ++whole_.counts_.passed;
    nfq_set_verdict(queue_, x.id, NF_ACCEPT,
                    static_cast<uint32_t>(x.replaced_by.size()),
                    x.replaced_by.empty() ? nullptr : x.replaced_by.data());
    if (x.again.empty())
      return;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_addr, x.again.data() + ip_source_at + 4, 4);
    ::sendto(raw_, x.again.data(), x.again.size(), MSG_DONTWAIT,
             reinterpret_cast<sockaddr*>(&to), sizeof to);
  }

  bad_network& whole_;
  size_t index_;
  random_stream random_;
  int space_ = -1;
  int raw_ = -1;
  nfq_handle* netlink_ = nullptr;
  nfq_q_handle* queue_ = nullptr;
  std::multimap<timestamp, packet> held_; ///< by the time to forward them
};

bad_network::bad_network(std::vector<std::string> nodes)
  : nodes_(std::move(nodes)),
    faults_(nodes_.size(), std::vector<network_faults>(nodes_.size())) {
  std::atomic<bool> made{false};
  thread_ = std::thread{[&] {
    auto good = make_hosts() && join_hosts();
    made = true;
    made.notify_one();
    if (good)
      carry();
  }};
  made.wait(false);
}

bad_network::~bad_network() {
  going_ = false;
  thread_.join();
}

bool bad_network::make_hosts() {
  for (size_t i = 0; i <= nodes_.size(); ++i) {
    hosts_.push_back(std::make_unique<host>(*this, i));
    auto& x = *hosts_.back();
    if (!x.there())
      problem_ = "network namespaces need root, or to be called by unshare -Ur";
    else if (i < nodes_.size() && !x.listen())
      problem_ = "the kernel gives no packets away (NFQUEUE)";
    if (!problem_.empty())
      return false;
  }
  return true;
}

/// Must run on the thread that is in the namespace of the bridge, which is the
/// last host.
bool bad_network::join_hosts() {
  std::string all = "set -e; PATH=$PATH:/usr/sbin:/sbin\n"
                    "ip link add name bridge type bridge\n"
                    "ip link set bridge up\n";
  for (size_t i = 0; i < nodes_.size(); ++i) {
    auto port = "port" + std::to_string(i);
    all += "ip link add name " + port + " type veth peer name wire netns "
           + hosts_[i]->path() + "\nip link set " + port
           + " master bridge up\nnsenter --net=" + hosts_[i]->path()
           + " sh -ec 'ip link set lo up; ip address add " + address(nodes_[i])
           + "/24 dev wire; ip link set wire up;"
             " iptables -A INPUT -i wire -p tcp -j NFQUEUE --queue-num 0'\n";
  }
  temporary_directory folder;
  process shell{{"/bin/sh", "-c", all}, folder / "log"};
  if (shell.wait() == 0)
    return true;
  auto said = read_file(folder / "log", 10'000);
  problem_ = "ip (iproute2), nsenter (util-linux) or iptables cannot do it: "
             + (said ? *said : said.failure().text);
  return false;
}

size_t bad_network::index_of(const std::string& node) const {
  auto i = std::find(nodes_.begin(), nodes_.end(), node);
  REQUIRE(i != nodes_.end());
  return static_cast<size_t>(i - nodes_.begin());
}

std::string bad_network::address(const std::string& node) const {
  return "10.17.0." + std::to_string(index_of(node) + 1);
}

std::vector<std::string> bad_network::enter(const std::string& node) const {
  return {"/usr/bin/nsenter", "--net=" + hosts_[index_of(node)]->path()};
}

network_faults bad_network::faults_of(size_t from, size_t to) {
  std::lock_guard guard{mutex_};
  return from < faults_.size() ? faults_[from][to] : network_faults{};
}

void bad_network::all(const network_faults& x) {
  std::lock_guard guard{mutex_};
  for (auto& row : faults_)
    std::fill(row.begin(), row.end(), x);
}

void bad_network::into(const std::string& node, const network_faults& x) {
  std::lock_guard guard{mutex_};
  for (auto& row : faults_)
    row[index_of(node)] = x;
}

void bad_network::out_of(const std::string& node, const network_faults& x) {
  std::lock_guard guard{mutex_};
  auto& row = faults_[index_of(node)];
  std::fill(row.begin(), row.end(), x);
}

void bad_network::carry() {
  std::vector<pollfd> items;
  for (size_t i = 0; i < nodes_.size(); ++i)
    items.push_back({hosts_[i]->fd(), POLLIN, 0});
  while (going_) {
    auto time = steady_now();
    auto next = time + 20ms; // upper bound, to notice the end of the test
    for (size_t i = 0; i < nodes_.size(); ++i)
      next = std::min(next, hosts_[i]->release(time));
    auto left = std::chrono::nanoseconds{next - time}.count();
    timespec wait{0, static_cast<long>(std::max<int64_t>(0, left))};
    ::ppoll(items.data(), items.size(), &wait, nullptr);
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (items[i].revents != 0)
        hosts_[i]->take();
  }
}

} // namespace millrace::test
