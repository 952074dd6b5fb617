// SPDX-License-Identifier: Apache-2.0
#include "transport/simulated/network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace millrace {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// Payload of a packet: each may be lost.
constexpr size_t packet_bytes = 1448;

} // namespace

simulated_network::simulated_network(virtual_world& world,
                                     network_settings settings,
                                     random_stream random)
  : world_(world),
    settings_(std::move(settings)),
    random_(std::move(random)) {
  hosts_.push_back(
    {"clients", make_edge("", settings_.clients, "clients"), {}, 0, {}});
  hosts_.push_back(
    {"store", make_edge("", settings_.store, "store"), {}, 0, {}});
}

simulated_network::~simulated_network() {
  *alive_ = false;
}

/// A link without a name is not in use().
link_number simulated_network::add_link(const std::string& shown_as,
                                        double bytes_per_second) {
  use_.push_back({shown_as, 0, 0, 0});
  return fabric_.add_link(bytes_per_second);
}

simulated_network::edge
simulated_network::make_edge(const std::string& name, const link_speed& usual,
                             const std::string& shown_as) {
  auto i = settings_.links.find(name);
  auto& x = i == settings_.links.end() ? usual : i->second;
  edge out;
  out.latency = x.latency;
  out.limited = x.speed.bytes_per_second > 0;
  out.speed = out.limited ? x.speed.bytes_per_second : unlimited;
  out.per_flow = x.per_flow.bytes_per_second;
  out.per_host = x.per_host.bytes_per_second;
  if (out.limited) {
    out.up = add_link(shown_as + " up", out.speed);
    out.down = add_link(shown_as + " down", out.speed);
  }
  return out;
}

host_number simulated_network::add_host(const std::string& name,
                                        const std::string& rack) {
  if (!rack.empty() && !racks_.contains(rack))
    racks_[rack] = make_edge(rack, settings_.rack, rack);
  hosts_.push_back({name, make_edge(name, settings_.host, name), rack, 0, {}});
  return static_cast<host_number>(hosts_.size() - 1);
}

std::vector<link_number> simulated_network::path(host_number from,
                                                 host_number to) const {
  std::vector<link_number> out;
  if (from == to)
    return out;
  auto& a = hosts_[from];
  auto& b = hosts_[to];
  auto across = a.rack != b.rack;
  auto add = [&](const edge& x, link_number l) {
    if (x.limited)
      out.push_back(l);
  };
  add(a.link, a.link.up);
  if (across && !a.rack.empty())
    add(racks_.at(a.rack), racks_.at(a.rack).up);
  if (across && !b.rack.empty())
    add(racks_.at(b.rack), racks_.at(b.rack).down);
  add(b.link, b.link.down);
  return out;
}

namespace {

/// The smaller of two limits, where 0 is no limit.
double tighter(double x, double y) {
  return x == 0 ? y : y == 0 ? x : std::min(x, y);
}

} // namespace

std::optional<link_number> simulated_network::take_flow_link(host_number from,
                                                             host_number to) {
  auto limit = tighter(hosts_[from].link.per_flow, hosts_[to].link.per_flow);
  if (limit == 0 || from == to)
    return std::nullopt;
  if (auto i = free_flow_links_.find(limit); i != free_flow_links_.end()) {
    auto out = i->second;
    free_flow_links_.erase(i);
    return out;
  }
  return add_link("", limit);
}

std::optional<link_number> simulated_network::find_pair_link(host_number from,
                                                             host_number to) {
  auto limit = tighter(hosts_[from].link.per_host, hosts_[to].link.per_host);
  if (limit == 0 || from == to)
    return std::nullopt;
  auto [i, fresh] = pair_links_.try_emplace({from, to});
  if (fresh)
    i->second = add_link(hosts_[from].name + " to " + hosts_[to].name, limit);
  return i->second;
}

microseconds simulated_network::latency(host_number from,
                                        host_number to) const {
  if (from == to)
    return settings_.local;
  auto& a = hosts_[from];
  auto& b = hosts_[to];
  auto out = a.link.latency + b.link.latency;
  if (a.rack != b.rack) {
    if (!a.rack.empty())
      out += racks_.at(a.rack).latency;
    if (!b.rack.empty())
      out += racks_.at(b.rack).latency;
  }
  return out;
}

/// Random and injected additions to a message's latency.
microseconds simulated_network::extra(host_number from, host_number to) {
  microseconds out{0};
  if (settings_.jitter > 0us)
    out +=
      microseconds{std::llround(static_cast<double>(settings_.jitter.count())
                                * -std::log1p(-random_.uniform()))};
  if (from != to)
    out += hosts_[from].delay + hosts_[to].delay;
  return out;
}

void simulated_network::block(host_number from, host_number to) {
  if (!blocked_.insert({from, to}).second)
    return;
  for (auto& [number, s] : streams_)
    if (s->from_ == from && s->to_ == to)
      s->halt();
}

void simulated_network::unblock(host_number from, host_number to) {
  if (blocked_.erase({from, to}) == 0)
    return;
  for (auto& [number, s] : streams_)
    if (s->from_ == from && s->to_ == to)
      s->go_on();
}

void simulated_network::set_speed(host_number host, double part) {
  auto& e = hosts_[host].link;
  if (!e.limited)
    return;
  fabric_.set_capacity(e.up, part * e.speed, world_.now());
  fabric_.set_capacity(e.down, part * e.speed, world_.now());
  for (auto& [number, s] : streams_)
    if (s->from_ == host || s->to_ == host)
      s->measure_path();
  arm();
}

std::vector<link_use> simulated_network::use() const {
  std::vector<link_use> out;
  for (link_number l = 0; l < use_.size(); ++l)
    if (!use_[l].name.empty()) {
      out.push_back(use_[l]);
      out.back().room = fabric_.room(l, world_.now());
    }
  return out;
}

std::unique_ptr<simulated_network::stream>
simulated_network::open(host_number from, host_number to) {
  return std::make_unique<stream>(*this, from, to);
}

std::unique_ptr<simulated_network::stream>
simulated_network::open_disk(host_number of, link_number disk) {
  return std::make_unique<stream>(*this, of, of, disk);
}

// -- large messages -----------------------------------------------------------

void simulated_network::arm() {
  auto due = fabric_.next_due();
  if (due == far_future || (!armed_.empty() && armed_.back() <= due))
    return;
  armed_.push_back(due);
  world_.at(due, [this, alive = alive_] {
    if (!*alive)
      return;
    armed_.pop_back();
    pump();
  });
}

void simulated_network::pump() {
  auto now = world_.now();
  for (auto flow : fabric_.take_ended(now))
    if (auto i = sending_.find(flow); i != sending_.end())
      i->second->sent(now);
  arm();
}

// -- a stream -----------------------------------------------------------------

simulated_network::stream::stream(simulated_network& net, host_number from,
                                  host_number to,
                                  std::optional<link_number> disk)
  : net_(net),
    number_(++net.last_stream_),
    from_(from),
    to_(to),
    path_(net.path(from, to)),
    flow_link_(net.take_flow_link(from, to)),
    latency_(disk ? 0us : net.latency(from, to)) {
  if (disk)
    path_.push_back(*disk);
  if (flow_link_)
    path_.push_back(*flow_link_);
  if (auto both = net.find_pair_link(from, to))
    path_.push_back(*both);
  measure_path();
  net_.streams_.emplace(number_, this);
}

simulated_network::stream::~stream() {
  reset();
  net_.streams_.erase(number_);
  if (flow_link_)
    net_.free_flow_links_.emplace(net_.fabric_.capacity(*flow_link_),
                                  *flow_link_);
}

void simulated_network::stream::measure_path() {
  slowest_ = unlimited;
  for (auto link : path_)
    slowest_ = std::min(slowest_, net_.fabric_.capacity(link));
}

void simulated_network::stream::reset() {
  life_->over = true;
  life_ = std::make_shared<life>();
  waiting_.clear();
  halted_.reset();
  if (flow_ != 0) {
    net_.sending_.erase(flow_);
    net_.fabric_.stop(std::exchange(flow_, 0), net_.world_.now());
    net_.arm();
  }
}

void simulated_network::stream::push(parcel sent) {
  waiting_.push_back(std::move(sent));
  if (flow_ == 0)
    go_on();
}

void simulated_network::stream::transmit(double bytes) {
  flow_ = net_.fabric_.start(path_, bytes, net_.world_.now());
  net_.sending_[flow_] = this;
  net_.arm();
}

/// The path is blocked: keeps the bytes that are left.
void simulated_network::stream::halt() {
  if (flow_ == 0)
    return;
  net_.sending_.erase(flow_);
  halted_ = net_.fabric_.stop(std::exchange(flow_, 0), net_.world_.now());
  net_.arm();
}

void simulated_network::stream::go_on() {
  if (halted_ && !net_.blocked(from_, to_))
    transmit(*std::exchange(halted_, std::nullopt));
  while (flow_ == 0 && !halted_ && !waiting_.empty()
         && !net_.blocked(from_, to_)) {
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    begin(std::move(next));
  }
}

void simulated_network::stream::begin(parcel sent) {
  auto now = net_.world_.now();
  if (net_.settings_.transfer.independent && from_ != to_) {
    std::chrono::duration<double> takes{
      net_.settings_.transfer.seconds(sent.bytes)};
    count(sent.bytes, false);
    // The law includes the latency of the path.
    return arrive(std::move(sent),
                  now + std::chrono::duration_cast<nanoseconds>(takes)
                    - latency_);
  }
  if (sent.bytes >= net_.settings_.contend_from.value
      && std::isfinite(slowest_)) {
    now_sending_ = std::move(sent);
    transmit(static_cast<double>(now_sending_.bytes));
    return;
  }
  count(sent.bytes, false);
  auto took =
    std::chrono::duration<double>{static_cast<double>(sent.bytes) / slowest_};
  free_at_ =
    std::max(free_at_, now) + std::chrono::duration_cast<nanoseconds>(took);
  arrive(std::move(sent), free_at_);
}

void simulated_network::stream::count(size_t bytes, bool shared) {
  for (auto l : path_) {
    net_.use_[l].bytes += static_cast<double>(bytes);
    if (shared)
      net_.use_[l].shared_bytes += static_cast<double>(bytes);
  }
}

void simulated_network::stream::sent(timestamp when) {
  count(now_sending_.bytes, true);
  arrive(std::move(now_sending_), when);
  if (!waiting_.empty() && !net_.blocked(from_, to_)
      && waiting_.front().bytes >= net_.settings_.contend_from.value) {
    now_sending_ = std::move(waiting_.front());
    waiting_.pop_front();
    net_.fabric_.go_on(flow_, static_cast<double>(now_sending_.bytes), when);
    return;
  }
  net_.sending_.erase(flow_);
  net_.fabric_.stop(std::exchange(flow_, 0), when);
  go_on();
}

void simulated_network::stream::arrive(parcel sent, timestamp when) {
  auto loss = 1 - (1 - net_.hosts_[from_].loss) * (1 - net_.hosts_[to_].loss);
  if (loss > 0 && from_ != to_) {
    // Probability that a packet of the message is lost, then of each
    // retransmission.
    auto packets = static_cast<double>(1 + sent.bytes / packet_bytes);
    auto any = 1 - std::pow(1 - loss, packets);
    auto wait = net_.settings_.retransmit;
    microseconds lost{0};
    for (; lost < net_.settings_.reconnect && net_.random_.uniform() < any;
         any = loss) {
      lost += wait;
      wait *= 2;
    }
    when += std::min(lost, net_.settings_.reconnect);
  }
  when += latency_ + net_.extra(from_, to_);
  last_arrival_ = std::max(last_arrival_, when);
  if (sent.where == nullptr)
    net_.world_.at(last_arrival_, std::move(sent.arrived));
  else
    net_.world_.at(last_arrival_, *sent.where, std::move(sent.arrived));
}

} // namespace millrace
