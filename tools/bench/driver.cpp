// SPDX-License-Identifier: Apache-2.0
#include "bench/driver.hpp"

#include "models/signature.hpp"
#include "simulator/samples.hpp"

namespace millrace {

nanoseconds runtime_echo::round_trip() {
  auto begin = steady_now();
  gateway_.submit(request_);
  while (!count(gateway_.receive(1s))) {
  }
  return steady_now() - begin;
}

double runtime_echo::throughput(size_t open, microseconds length) {
  auto begin = steady_now();
  size_t done = 0;
  while (steady_now() - begin < length) {
    fill(open);
    done += count(gateway_.receive(1s));
    while (count(gateway_.receive(microseconds{0})))
      ++done;
  }
  auto took = to_seconds(steady_now() - begin);
  while (gateway_.outstanding() > 0)
    count(gateway_.receive(1s));
  while (count(gateway_.receive(microseconds{0}))) {
    // Answers that arrived together with the last one.
  }
  return static_cast<double>(done) / took;
}

result<void> runtime_echo::verdict() const {
  if (failed_ == 0)
    return {};
  return error{first_failure_.status,
               std::to_string(failed_)
                 + " requests failed; the first: " + first_failure_.error,
               {}};
}

void runtime_echo::fill(size_t open) {
  std::optional<client::group> together;
  if (how_ == grouped)
    together.emplace(gateway_);
  while (gateway_.outstanding() < open)
    gateway_.submit(request_);
}

bool runtime_echo::count(const std::optional<client::answer>& answered) {
  if (answered && answered->reply.status != ec::ok && failed_++ == 0)
    first_failure_ = answered->reply;
  return answered.has_value();
}

std::pair<double, double> latency(const std::function<nanoseconds()>& once,
                                  microseconds length) {
  samples all;
  for (auto begin = steady_now(); steady_now() - begin < length;)
    all.add(1e6 * to_seconds(once()));
  return {all.quantile(.5), all.quantile(.99)};
}

infer request_of(const std::string& model, const signature& takes,
                 int64_t rows) {
  infer out;
  out.model = model;
  for (auto& spec : takes.inputs)
    out.inputs.push_back(
      {"", *tensor::zeros(spec.type, with_rows(takes, spec, rows))});
  return out;
}

result<infer> request_for(const std::string& model, client& gateway,
                          int64_t rows) {
  auto models = gateway.models();
  if (!models)
    return models.failure();
  for (auto& m : *models)
    if (m.model == model)
      return request_of(model, m.signature, rows);
  return error{
    ec::unknown_model, "the bench's nodes do not serve " + model, {}};
}

} // namespace millrace
