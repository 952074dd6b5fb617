// SPDX-License-Identifier: Apache-2.0
#include "simulator/workload.hpp"

#include <algorithm>
#include <cstring>

#include "simulator/model.hpp"

namespace millrace::simulator {

result<workload> workload::make(const loaded_scenario& what, uint64_t seed) {
  workload out;
  out.what_ = &what;
  random_stream random{seed};
  for (size_t i = 0; i < what.spec.workload.size(); ++i) {
    auto& part = what.spec.workload[i];
    auto longest = what.spec.length - part.start;
    auto length = part.length > 0us ? std::min(part.length, longest) : longest;
    auto name = "workload " + std::to_string(i);
    std::vector<uint32_t> function;
    auto times =
      make_arrivals(part, length, random.fork(name + " times"), &function);
    if (!times)
      return error{ec::bad_config,
                   what.file + ": workload[" + std::to_string(i)
                     + "]: " + times.failure().text,
                   {}};
    stream s;
    s.random = random.fork(name + " models");
    for (auto& [model, weight] : part.mix)
      s.total_weight += weight;
    out.streams_.push_back(std::move(s));
    for (size_t k = 0; k < times->size(); ++k)
      out.requests_.push_back({part.start + (*times)[k],
                               static_cast<uint32_t>(i),
                               k < function.size() ? function[k] : 0});
  }
  std::stable_sort(out.requests_.begin(), out.requests_.end(),
                   [](auto& a, auto& b) { return a.at < b.at; });
  return out;
}

const std::string& workload::choose_model(const request& next) {
  auto& p = part(next);
  auto& s = streams_[next.part];
  if (p.mix.empty())
    return p.model;
  // All requests of a function use the same model.
  auto at =
    p.arrivals == arrival_process::functions
      ? s.random.fork("function " + std::to_string(next.function)).uniform()
      : s.random.uniform();
  at *= s.total_weight;
  auto chosen = p.mix.begin();
  for (auto i = chosen; i != p.mix.end(); ++i) {
    chosen = i;
    if ((at -= i->second) < 0)
      break;
  }
  return chosen->first;
}

infer workload::make_request(const request& next, const std::string& model,
                             uint64_t id) {
  auto& p = part(next);
  infer out;
  out.model = model;
  out.application = p.application;
  out.accuracy = p.goal.accuracy;
  out.latency = p.goal.latency;
  auto& bundles = what_->spec.bundles;
  auto known = std::find_if(bundles.begin(), bundles.end(), [&](auto& b) {
    return b.first == model
           || (model.empty() && b.second.application == out.application);
  });
  auto rows = p.rows;
  auto add = [&](uint64_t row, shared_bytes data) {
    shape extents{static_cast<int64_t>(rows), static_cast<int64_t>(row)};
    out.inputs.push_back({"", tensor{dtype::u8, extents, std::move(data)}});
  };
  auto marked = [&](uint64_t bytes) {
    std::string y(bytes, '\0');
    std::memcpy(y.data(), &id, std::min(sizeof id, y.size()));
    return shared_bytes::copy_of(y);
  };
  if (known == bundles.end())
    return add(1, marked(rows)), out; // the gateway refuses the unknown model
  auto row = known->second.input.value;
  if (!is_tagged(known->second))
    return add(row, marked(rows * row)), out;
  add(tag_bytes, marked(rows * tag_bytes));
  auto& shared = inputs_[known->first + "/" + std::to_string(rows)];
  if (shared.size() == 0)
    shared = shared_bytes::copy_of(std::string(rows * row, '\0'));
  add(row, shared);
  return out;
}

} // namespace millrace::simulator
