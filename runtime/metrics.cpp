// SPDX-License-Identifier: Apache-2.0
#include "runtime/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace millrace {

namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

/// Seconds, from 50 us (a trivial model in one process) to 10 s, about three
/// steps a decade: enough for a quantile, few enough to scrape often.
const Histogram::BucketBoundaries second_buckets{
  .00005, .0001, .00025, .0005, .001, .0025, .005, .01,
  .025,   .05,   .1,     .25,   .5,   1,     2.5,  10};

/// The same, from a start out of memory to one over a slow link.
const Histogram::BucketBoundaries start_buckets{
  .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250};

const Histogram::BucketBoundaries decision_buckets{
  1e-6, 1e-5, 1e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1, 5};

const Histogram::BucketBoundaries size_buckets{1,  2,  4,   8,   16,
                                               32, 64, 128, 256, 512};

template <class Enum>
std::string text_of(Enum x) {
  return std::string{to_string(x)};
}

} // namespace

struct metrics::impl {
  Registry registry;
  std::string reference = "| metric | kind | meaning |\n|---|---|---|\n";

  void note(const char* name, const char* kind, const char* help) {
    reference +=
      std::string{"| `"} + name + "` | " + kind + " | " + help + " |\n";
  }
  Family<Counter>& counter_family(const char* name, const char* help) {
    note(name, "counter", help);
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Family<Gauge>& gauge_family(const char* name, const char* help) {
    note(name, "gauge", help);
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  Family<Histogram>& histogram_family(const char* name, const char* help) {
    note(name, "histogram", help);
    return prometheus::BuildHistogram().Name(name).Help(help).Register(
      registry);
  }

  Family<Counter>& requests = counter_family(
    "millrace_requests_total", "Requests answered, by model and final status.");
  Family<Histogram>& request_seconds =
    histogram_family("millrace_request_seconds",
                     "Time of answered requests, by model and phase of their"
                     " life: queue, execute, total.");
  Family<Histogram>& batch_size = histogram_family(
    "millrace_batch_size", "Requests per executed batch, by model.");
  Family<Gauge>& queue_length = gauge_family(
    "millrace_queue_length", "Requests waiting for a replica, by model.");
  Family<Gauge>& replicas_ready =
    gauge_family("millrace_replicas_ready",
                 "Replicas this node's routers can use, by model.");
  Family<Counter>& redispatched =
    counter_family("millrace_redispatched_total",
                   "Requests sent again because their replica was lost, by"
                   " model.");
  Family<Gauge>& replicas = gauge_family(
    "millrace_replicas",
    "Replicas as the controller sees them, by model and state: wanted,"
    " starting, ready.");
  Family<Counter>& replica_seconds = counter_family(
    "millrace_replica_seconds_total",
    "Seconds of ready replicas, summed over replicas, by model.");
  Family<Counter>& demand_arrivals = counter_family(
    "millrace_demand_arrivals_total",
    "Requests for a model that this node's gateway admitted or had no room"
    " for, by model.");
  Family<Counter>& slo_answers = counter_family(
    "millrace_slo_total",
    "Answers by model and whether they were ok within the model's SLO:"
    " within=true or false.");
  Family<Counter>& scaling_decisions = counter_family(
    "millrace_scaling_decisions_total",
    "Changes of a model's number of replicas, by policy and direction: up,"
    " down.");
  Family<Histogram>& decision_seconds = histogram_family(
    "millrace_decision_seconds",
    "Time that a scaling policy took for one proposal, by policy.");
  Family<Counter>& late_answers =
    counter_family("millrace_unused_answers_total",
                   "Answers that found their request already settled, by"
                   " reason.");
  Family<Counter>& bus_messages = counter_family(
    "millrace_bus_messages_total", "Messages on the bus, by direction.");
  Family<Counter>& bus_bytes = counter_family(
    "millrace_bus_bytes_total", "Bytes of messages on the bus, by direction.");
  Family<Counter>& bus_dropped =
    counter_family("millrace_bus_dropped_total",
                   "Messages that could not be delivered, were not understood"
                   " or not allowed, by reason.");
  Family<Gauge>& peers =
    gauge_family("millrace_peers", "Other nodes with a link both ways.");
  Family<Counter>& actor_restarts = counter_family(
    "millrace_actor_restarts_total", "Crashed actors started again, by actor.");
  Family<Gauge>& node_ready = gauge_family(
    "millrace_node_ready", "1 while this node takes work, else 0.");
  Family<Gauge>& disk_refuses =
    gauge_family("millrace_disk_refuses",
                 "1 while a folder of data takes no writes, else 0.");
  Family<Counter>& device_busy =
    counter_family("millrace_device_busy_seconds_total",
                   "Time a device spent executing, by device.");
  Family<Gauge>& device_memory =
    gauge_family("millrace_device_memory_bytes",
                 "Memory held by loaded replicas, by device.");
  Family<Gauge>& gpu_busy =
    gauge_family("millrace_gpu_busy_ratio",
                 "Part of the last second in which a GPU ran kernels, whoever's"
                 " they were, by device.");
  Family<Gauge>& gpu_memory = gauge_family(
    "millrace_gpu_memory_bytes", "Memory of a GPU in use, by device.");
  Family<Gauge>& gpu_power =
    gauge_family("millrace_gpu_watts", "Power that a GPU takes, by device.");
  Family<Histogram>& start_seconds = histogram_family(
    "millrace_start_seconds",
    "Time from the order to start a replica until it can run,"
    " by model and where its bytes were: memory, disk, hosts, stores.");
  Family<Gauge>& cache_bytes =
    gauge_family("millrace_cache_bytes",
                 "Bytes of models that this node keeps, or has taken room for,"
                 " by tier; what nodes of one host share each of them counts.");
  Family<Gauge>& cache_limit =
    gauge_family("millrace_cache_limit_bytes",
                 "Bytes of models that there may be, by tier; 0: no limit.");
  Family<Counter>& cache_fetches =
    counter_family("millrace_cache_fetches_total",
                   "Models that replicas of this host asked for, by where they"
                   " were found: memory, disk, hosts (other nodes of this one,"
                   " too), stores, nowhere.");
  Family<Counter>& cache_evictions =
    counter_family("millrace_cache_evictions_total",
                   "Models that made way for others, by tier.");
  Family<Counter>& cache_quarantined =
    counter_family("millrace_cache_quarantined_total",
                   "Times that a bundle was found broken on the disk.");
  Family<Counter>& model_bytes =
    counter_family("millrace_model_bytes_total",
                   "Bytes of models to hosts, and from hosts and stores, by"
                   " direction.");
  Family<Counter>& sources_lost =
    counter_family("millrace_sources_lost_total",
                   "Times that a host or store was lost, refused, or gave wrong"
                   " bytes while a model came from there.");
  Family<Counter>& chain_passed_over =
    counter_family("millrace_chain_passed_over_total",
                   "Times that a host was put behind the others of a chain, for"
                   " it got nothing or too little.");
  Family<Gauge>& process_cpu = gauge_family(
    "millrace_process_cpu_seconds", "Time of cores this process has used.");
  Family<Gauge>& process_memory =
    gauge_family("millrace_process_resident_memory_bytes",
                 "Physical memory of this process, shared parts included.");
};

metrics::metrics(recording mode)
  : impl_(std::make_unique<impl>()),
    mode_(mode) {
}

template <class Handle>
Handle metrics::handle(void* x) const {
  return Handle{mode_ == recording::on ? x : nullptr};
}

metrics::~metrics() = default;

void counter::add(double n) {
  if (impl_ != nullptr)
    static_cast<Counter*>(impl_)->Increment(n);
}

void gauge::set(double x) {
  if (impl_ != nullptr)
    static_cast<Gauge*>(impl_)->Set(x);
}

void gauge::add(double x) {
  if (impl_ != nullptr)
    static_cast<Gauge*>(impl_)->Increment(x);
}

void histogram::observe(double x) {
  if (impl_ != nullptr)
    static_cast<Histogram*>(impl_)->Observe(x);
}

counter metrics::requests(std::string_view model, std::string_view status) {
  return handle<counter>(&impl_->requests.Add(
    {{"model", std::string{model}}, {"status", std::string{status}}}));
}

histogram metrics::request_seconds(std::string_view model, phase p) {
  return handle<histogram>(&impl_->request_seconds.Add(
    {{"model", std::string{model}}, {"phase", text_of(p)}}, second_buckets));
}

histogram metrics::batch_size(std::string_view model) {
  return handle<histogram>(
    &impl_->batch_size.Add({{"model", std::string{model}}}, size_buckets));
}

gauge metrics::queue_length(std::string_view model) {
  return handle<gauge>(
    &impl_->queue_length.Add({{"model", std::string{model}}}));
}

gauge metrics::replicas_ready(std::string_view model) {
  return handle<gauge>(
    &impl_->replicas_ready.Add({{"model", std::string{model}}}));
}

counter metrics::redispatched(std::string_view model) {
  return handle<counter>(
    &impl_->redispatched.Add({{"model", std::string{model}}}));
}

gauge metrics::replicas(std::string_view model, std::string_view state) {
  return handle<gauge>(&impl_->replicas.Add(
    {{"model", std::string{model}}, {"state", std::string{state}}}));
}

counter metrics::replica_seconds(std::string_view model) {
  return handle<counter>(
    &impl_->replica_seconds.Add({{"model", std::string{model}}}));
}

counter metrics::demand_arrivals(std::string_view model) {
  return handle<counter>(
    &impl_->demand_arrivals.Add({{"model", std::string{model}}}));
}

counter metrics::slo_answers(std::string_view model, bool within) {
  return handle<counter>(&impl_->slo_answers.Add(
    {{"model", std::string{model}}, {"within", within ? "true" : "false"}}));
}

counter metrics::scaling_decisions(std::string_view policy, bool up) {
  return handle<counter>(&impl_->scaling_decisions.Add(
    {{"policy", std::string{policy}}, {"direction", up ? "up" : "down"}}));
}

histogram metrics::decision_seconds(std::string_view policy) {
  return handle<histogram>(&impl_->decision_seconds.Add(
    {{"policy", std::string{policy}}}, decision_buckets));
}

counter metrics::late_answers(std::string_view reason) {
  return handle<counter>(
    &impl_->late_answers.Add({{"reason", std::string{reason}}}));
}

counter metrics::bus_messages(std::string_view direction) {
  return handle<counter>(
    &impl_->bus_messages.Add({{"direction", std::string{direction}}}));
}

counter metrics::bus_bytes(std::string_view direction) {
  return handle<counter>(
    &impl_->bus_bytes.Add({{"direction", std::string{direction}}}));
}

counter metrics::bus_dropped(std::string_view reason) {
  return handle<counter>(
    &impl_->bus_dropped.Add({{"reason", std::string{reason}}}));
}

gauge metrics::peers() {
  return handle<gauge>(&impl_->peers.Add({}));
}

counter metrics::actor_restarts(std::string_view actor) {
  return handle<counter>(
    &impl_->actor_restarts.Add({{"actor", std::string{actor}}}));
}

gauge metrics::node_ready() {
  return handle<gauge>(&impl_->node_ready.Add({}));
}

gauge metrics::disk_refuses(std::string_view folder) {
  return handle<gauge>(
    &impl_->disk_refuses.Add({{"folder", std::string{folder}}}));
}

counter metrics::device_busy_seconds(std::string_view device) {
  return handle<counter>(
    &impl_->device_busy.Add({{"device", std::string{device}}}));
}

gauge metrics::device_memory_bytes(std::string_view device) {
  return handle<gauge>(
    &impl_->device_memory.Add({{"device", std::string{device}}}));
}

gauge metrics::gpu_busy_ratio(std::string_view device) {
  return handle<gauge>(&impl_->gpu_busy.Add({{"device", std::string{device}}}));
}

gauge metrics::gpu_memory_bytes(std::string_view device) {
  return handle<gauge>(
    &impl_->gpu_memory.Add({{"device", std::string{device}}}));
}

gauge metrics::gpu_watts(std::string_view device) {
  return handle<gauge>(
    &impl_->gpu_power.Add({{"device", std::string{device}}}));
}

histogram metrics::start_seconds(std::string_view model, found_in from) {
  return handle<histogram>(&impl_->start_seconds.Add(
    {{"model", std::string{model}}, {"from", text_of(from)}}, start_buckets));
}

gauge metrics::cache_bytes(cache_tier tier) {
  return handle<gauge>(&impl_->cache_bytes.Add({{"tier", text_of(tier)}}));
}

gauge metrics::cache_limit_bytes(cache_tier tier) {
  return handle<gauge>(&impl_->cache_limit.Add({{"tier", text_of(tier)}}));
}

counter metrics::cache_fetches(found_in from) {
  return handle<counter>(&impl_->cache_fetches.Add({{"from", text_of(from)}}));
}

counter metrics::cache_evictions(cache_tier tier) {
  return handle<counter>(
    &impl_->cache_evictions.Add({{"tier", text_of(tier)}}));
}

counter metrics::cache_quarantined() {
  return handle<counter>(&impl_->cache_quarantined.Add({}));
}

counter metrics::model_bytes(std::string_view direction) {
  return handle<counter>(
    &impl_->model_bytes.Add({{"direction", std::string{direction}}}));
}

counter metrics::sources_lost() {
  return handle<counter>(&impl_->sources_lost.Add({}));
}

counter metrics::chain_passed_over() {
  return handle<counter>(&impl_->chain_passed_over.Add({}));
}

gauge metrics::process_cpu_seconds() {
  return handle<gauge>(&impl_->process_cpu.Add({}));
}

gauge metrics::process_resident_memory_bytes() {
  return handle<gauge>(&impl_->process_memory.Add({}));
}

std::string metrics::text() const {
  return prometheus::TextSerializer{}.Serialize(impl_->registry.Collect());
}

std::string metrics::reference() const {
  return impl_->reference;
}

} // namespace millrace
