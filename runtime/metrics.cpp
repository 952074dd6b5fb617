// SPDX-License-Identifier: Apache-2.0
#include "runtime/metrics.hpp"

#include <functional>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/text_serializer.h>

#include "runtime/metric_series.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using labels = std::map<std::string, std::string>;

constexpr auto by_handles = series_life::handles;

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

labels one_label(const char* name, std::string_view value) {
  return {{name, std::string{value}}};
}

labels of_model(std::string_view model) {
  return one_label("model", model);
}

labels of_model(model_label x) {
  auto out = of_model(x.model);
  if (x.version != 0)
    out.emplace("version", std::to_string(x.version));
  return out;
}

labels with(labels x, const char* name, std::string_view value) {
  x.emplace(name, std::string{value});
  return x;
}

} // namespace

struct metrics::impl {
  /// A family, which declares itself.
  template <class Metric>
  struct family : metric_series<Metric> {
    family(impl& in, const char* name, const char* help,
           series_life life = series_life::process)
      : metric_series<Metric>({name, help, Metric::metric_type, {}}, life) {
      in.reference += std::string{"| `"} + name + "` | "
                      + kind_of(Metric::metric_type) + " | " + help + " |\n";
      in.collectors.push_back([this, &in] { return this->collect(in.common); });
    }
  };

  static const char* kind_of(MetricType x) {
    return x == MetricType::Counter ? "counter"
           : x == MetricType::Gauge ? "gauge"
                                    : "histogram";
  }

  template <class Metric, class... Ts>
  std::shared_ptr<void> get(family<Metric>& from, const labels& of,
                            const Ts&... xs) {
    return mode == recording::on ? from.at(of, xs...) : nullptr;
  }

  labels common; ///< of every series
  recording mode = recording::on;
  std::vector<std::function<MetricFamily()>> collectors;
  std::string reference = "| metric | kind | meaning |\n|---|---|---|\n";

  family<Counter> requests{
    *this, "millrace_requests_total",
    "Requests answered, by model, version, tenant and final status;"
    " model=unknown: none that is served or wanted.",
    by_handles};
  family<Histogram> request_seconds{
    *this, "millrace_request_seconds",
    "Time of answered requests, by model, version and phase of their life:"
    " queue (of which gathered: a replica was free meanwhile), execute (of"
    " which interference: what other batches on the device cost), total.",
    by_handles};
  family<Histogram> batch_size{
    *this, "millrace_batch_size",
    "Requests per executed batch, by model and version.", by_handles};
  family<Gauge> queue_length{
    *this, "millrace_queue_length",
    "Requests waiting for a replica, by model and version.", by_handles};
  family<Gauge> replicas_ready{
    *this, "millrace_replicas_ready",
    "Replicas this node's routers can use, by model and version.", by_handles};
  family<Counter> redispatched{
    *this, "millrace_redispatched_total",
    "Requests sent again because their replica was lost, by model and"
    " version.",
    by_handles};
  family<Gauge> model_replicas_wanted{
    *this, "millrace_model_replicas_wanted",
    "Whole copies that a model shall have, by model; of the controller.",
    by_handles};
  family<Gauge> model_replicas_ready{
    *this, "millrace_model_replicas_ready",
    "Whole copies of a model that are ready, by model: one in parts counts"
    " once all its parts are; of the controller.",
    by_handles};
  family<Gauge> model_replicas_starting{
    *this, "millrace_model_replicas_starting",
    "Whole copies of a model that start, by model; of the controller.",
    by_handles};
  family<Counter> replica_seconds{
    *this, "millrace_replica_seconds_total",
    "Seconds of ready replicas, summed over replicas, by model.", by_handles};
  family<Counter> demand_arrivals{
    *this, "millrace_demand_arrivals_total",
    "Requests for a model that this node's gateway admitted or had no room"
    " for, by model.",
    by_handles};
  family<Counter> slo_answers{
    *this, "millrace_slo_total",
    "Answers by model and whether they were ok within the model's SLO:"
    " within=true or false.",
    by_handles};
  family<Counter> scaling_decisions{
    *this, "millrace_scaling_decisions_total",
    "Changes of a model's number of replicas, by policy and direction: up,"
    " down."};
  family<Histogram> decision_seconds{
    *this, "millrace_decision_seconds",
    "Time that a scaling policy took for one proposal, by policy."};
  family<Counter> late_answers{
    *this, "millrace_unused_answers_total",
    "Answers that found their request already settled, by reason."};
  family<Counter> bus_messages{*this, "millrace_bus_messages_total",
                               "Messages on the bus, by direction."};
  family<Counter> bus_bytes{*this, "millrace_bus_bytes_total",
                            "Bytes of messages on the bus, by direction."};
  family<Counter> bus_dropped{
    *this, "millrace_bus_dropped_total",
    "Messages that could not be delivered, were not understood or not"
    " allowed, by reason."};
  family<Gauge> peers{*this, "millrace_peers",
                      "Other nodes with a link both ways."};
  family<Counter> actor_restarts{*this, "millrace_actor_restarts_total",
                                 "Crashed actors started again, by actor."};
  family<Gauge> node_ready{*this, "millrace_node_ready",
                           "1 while this node takes work, else 0."};
  family<Gauge> disk_refuses{
    *this, "millrace_disk_refuses",
    "1 while a folder of data takes no writes, else 0."};
  family<Counter> device_busy{*this, "millrace_device_busy_seconds_total",
                              "Time a device spent executing, by device."};
  family<Gauge> device_memory{*this, "millrace_device_memory_bytes",
                              "Memory held by loaded replicas, by device."};
  family<Gauge> device_memory_limit{
    *this, "millrace_device_memory_limit_bytes",
    "Memory that loaded replicas may hold, by device; 0: no limit."};
  family<Gauge> gpu_busy{
    *this, "millrace_gpu_busy_ratio",
    "Part of the last second in which a GPU ran kernels, whoever's they"
    " were, by device."};
  family<Gauge> gpu_memory{*this, "millrace_gpu_memory_bytes",
                           "Memory of a GPU in use, by device."};
  family<Gauge> gpu_memory_limit{*this, "millrace_gpu_memory_limit_bytes",
                                 "Memory that a GPU has, by device."};
  family<Gauge> gpu_power{*this, "millrace_gpu_watts",
                          "Power that a GPU takes, by device."};
  family<Histogram> start_seconds{
    *this, "millrace_start_seconds",
    "Time from the order to start a replica until it can run, by model,"
    " version and where its bytes were: memory, disk, hosts, stores.",
    by_handles};
  family<Gauge> cache_bytes{
    *this, "millrace_cache_bytes",
    "Bytes of models that this node keeps, or has taken room for, by tier;"
    " what nodes of one host share each of them counts."};
  family<Gauge> cache_limit{
    *this, "millrace_cache_limit_bytes",
    "Bytes of models that there may be, by tier; 0: no limit."};
  family<Counter> cache_fetches{
    *this, "millrace_cache_fetches_total",
    "Models that replicas of this host asked for, by where they were found:"
    " memory, disk, hosts (other nodes of this one, too), stores, nowhere."};
  family<Counter> cache_evictions{*this, "millrace_cache_evictions_total",
                                  "Models that made way for others, by tier."};
  family<Counter> cache_quarantined{
    *this, "millrace_cache_quarantined_total",
    "Times that a bundle was found broken on the disk."};
  family<Counter> model_bytes{
    *this, "millrace_model_bytes_total",
    "Bytes of models to hosts, and from hosts and stores, by direction."};
  family<Counter> sources_lost{
    *this, "millrace_sources_lost_total",
    "Times that a host or store was lost, refused, or gave wrong bytes"
    " while a model came from there."};
  family<Counter> chain_passed_over{
    *this, "millrace_chain_passed_over_total",
    "Times that a host was put behind the others of a chain, for it got"
    " nothing or too little."};
  family<Counter> process_cpu{
    *this, "millrace_process_cpu_seconds_total",
    "Time of cores, by part: node (its own process), confined (its"
    " processes of models that are not trusted)."};
  family<Gauge> process_memory{
    *this, "millrace_process_resident_memory_bytes",
    "Physical memory, by part: node (its own process), confined (its"
    " processes of models that are not trusted); pages that processes share"
    " count in each."};
  family<Gauge> start_time{
    *this, "millrace_start_time_seconds",
    "When this node was started, in seconds since 1970."};
  family<Gauge> build{
    *this, "millrace_build_info",
    "1, with what this node was built of: version, commit, libtorch, cuda."};
};

metrics::metrics(recording mode, std::string node)
  : impl_(std::make_unique<impl>()) {
  impl_->mode = mode;
  if (!node.empty())
    impl_->common.emplace("node", std::move(node));
}

metrics::~metrics() = default;

bool metrics::is_on() const {
  return impl_->mode == recording::on;
}

void counter::add(double n) {
  if (impl_ != nullptr)
    static_cast<Counter*>(impl_.get())->Increment(n);
}

void gauge::set(double x) {
  if (impl_ != nullptr)
    static_cast<Gauge*>(impl_.get())->Set(x);
}

void gauge::add(double x) {
  if (impl_ != nullptr)
    static_cast<Gauge*>(impl_.get())->Increment(x);
}

void histogram::observe(double x) {
  if (impl_ != nullptr)
    static_cast<Histogram*>(impl_.get())->Observe(x);
}

counter metrics::requests(model_label of, std::string_view tenant,
                          std::string_view status) {
  return counter{
    impl_->get(impl_->requests,
               with(with(of_model(of), "tenant", tenant), "status", status))};
}

histogram metrics::request_seconds(model_label of, phase p) {
  return histogram{impl_->get(impl_->request_seconds,
                              with(of_model(of), "phase", to_string(p)),
                              second_buckets)};
}

histogram metrics::batch_size(model_label of) {
  return histogram{impl_->get(impl_->batch_size, of_model(of), size_buckets)};
}

gauge metrics::queue_length(model_label of) {
  return gauge{impl_->get(impl_->queue_length, of_model(of))};
}

gauge metrics::replicas_ready(model_label of) {
  return gauge{impl_->get(impl_->replicas_ready, of_model(of))};
}

counter metrics::redispatched(model_label of) {
  return counter{impl_->get(impl_->redispatched, of_model(of))};
}

gauge metrics::model_replicas_wanted(std::string_view model) {
  return gauge{impl_->get(impl_->model_replicas_wanted, of_model(model))};
}

gauge metrics::model_replicas_ready(std::string_view model) {
  return gauge{impl_->get(impl_->model_replicas_ready, of_model(model))};
}

gauge metrics::model_replicas_starting(std::string_view model) {
  return gauge{impl_->get(impl_->model_replicas_starting, of_model(model))};
}

counter metrics::replica_seconds(std::string_view model) {
  return counter{impl_->get(impl_->replica_seconds, of_model(model))};
}

counter metrics::demand_arrivals(std::string_view model) {
  return counter{impl_->get(impl_->demand_arrivals, of_model(model))};
}

counter metrics::slo_answers(std::string_view model, bool within) {
  return counter{
    impl_->get(impl_->slo_answers,
               with(of_model(model), "within", within ? "true" : "false"))};
}

counter metrics::scaling_decisions(std::string_view policy, bool up) {
  return counter{impl_->get(
    impl_->scaling_decisions,
    with(one_label("policy", policy), "direction", up ? "up" : "down"))};
}

histogram metrics::decision_seconds(std::string_view policy) {
  return histogram{impl_->get(impl_->decision_seconds,
                              one_label("policy", policy), decision_buckets)};
}

counter metrics::late_answers(std::string_view reason) {
  return counter{impl_->get(impl_->late_answers, one_label("reason", reason))};
}

counter metrics::bus_messages(std::string_view direction) {
  return counter{
    impl_->get(impl_->bus_messages, one_label("direction", direction))};
}

counter metrics::bus_bytes(std::string_view direction) {
  return counter{
    impl_->get(impl_->bus_bytes, one_label("direction", direction))};
}

counter metrics::bus_dropped(std::string_view reason) {
  return counter{impl_->get(impl_->bus_dropped, one_label("reason", reason))};
}

gauge metrics::peers() {
  return gauge{impl_->get(impl_->peers, {})};
}

counter metrics::actor_restarts(std::string_view actor) {
  return counter{impl_->get(impl_->actor_restarts, one_label("actor", actor))};
}

gauge metrics::node_ready() {
  return gauge{impl_->get(impl_->node_ready, {})};
}

gauge metrics::disk_refuses(std::string_view folder) {
  return gauge{impl_->get(impl_->disk_refuses, one_label("folder", folder))};
}

counter metrics::device_busy_seconds(std::string_view device) {
  return counter{impl_->get(impl_->device_busy, one_label("device", device))};
}

gauge metrics::device_memory_bytes(std::string_view device) {
  return gauge{impl_->get(impl_->device_memory, one_label("device", device))};
}

gauge metrics::device_memory_limit_bytes(std::string_view device) {
  return gauge{
    impl_->get(impl_->device_memory_limit, one_label("device", device))};
}

gauge metrics::gpu_busy_ratio(std::string_view device) {
  return gauge{impl_->get(impl_->gpu_busy, one_label("device", device))};
}

gauge metrics::gpu_memory_bytes(std::string_view device) {
  return gauge{impl_->get(impl_->gpu_memory, one_label("device", device))};
}

gauge metrics::gpu_memory_limit_bytes(std::string_view device) {
  return gauge{
    impl_->get(impl_->gpu_memory_limit, one_label("device", device))};
}

gauge metrics::gpu_watts(std::string_view device) {
  return gauge{impl_->get(impl_->gpu_power, one_label("device", device))};
}

histogram metrics::start_seconds(model_label of, found_in from) {
  return histogram{impl_->get(impl_->start_seconds,
                              with(of_model(of), "from", to_string(from)),
                              start_buckets)};
}

gauge metrics::cache_bytes(cache_tier tier) {
  return gauge{
    impl_->get(impl_->cache_bytes, one_label("tier", to_string(tier)))};
}

gauge metrics::cache_limit_bytes(cache_tier tier) {
  return gauge{
    impl_->get(impl_->cache_limit, one_label("tier", to_string(tier)))};
}

counter metrics::cache_fetches(found_in from) {
  return counter{
    impl_->get(impl_->cache_fetches, one_label("from", to_string(from)))};
}

counter metrics::cache_evictions(cache_tier tier) {
  return counter{
    impl_->get(impl_->cache_evictions, one_label("tier", to_string(tier)))};
}

counter metrics::cache_quarantined() {
  return counter{impl_->get(impl_->cache_quarantined, {})};
}

counter metrics::model_bytes(std::string_view direction) {
  return counter{
    impl_->get(impl_->model_bytes, one_label("direction", direction))};
}

counter metrics::sources_lost() {
  return counter{impl_->get(impl_->sources_lost, {})};
}

counter metrics::chain_passed_over() {
  return counter{impl_->get(impl_->chain_passed_over, {})};
}

counter metrics::process_cpu_seconds(process_part of) {
  return counter{
    impl_->get(impl_->process_cpu, one_label("part", to_string(of)))};
}

gauge metrics::process_resident_memory_bytes(process_part of) {
  return gauge{
    impl_->get(impl_->process_memory, one_label("part", to_string(of)))};
}

gauge metrics::start_time_seconds() {
  return gauge{impl_->get(impl_->start_time, {})};
}

gauge metrics::build_info(const build_description& x) {
  return gauge{impl_->get(impl_->build, {{"version", x.version},
                                         {"commit", x.commit},
                                         {"libtorch", x.libtorch},
                                         {"cuda", x.cuda}})};
}

std::string metrics::text() const {
  std::vector<MetricFamily> out;
  for (auto& collect : impl_->collectors)
    if (auto x = collect(); !x.metric.empty())
      out.push_back(std::move(x));
  return printable(prometheus::TextSerializer{}.Serialize(out));
}

std::string metrics::reference() const {
  return impl_->reference;
}

} // namespace millrace
