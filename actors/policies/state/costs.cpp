// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/costs.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "actors/policies/state/configured_groups.hpp"
#include "models/partition/layer_costs.hpp"

namespace millrace {

namespace {

constexpr auto live = live_origin;

/// The profile of exactly the model's layers, else a profile without a layer
/// list. Null without either.
const profile* profile_of(const cost_book* book, const cost_query& x) {
  const profile* any = nullptr;
  if (book == nullptr)
    return any;
  auto i = book->profiles.find(x.model->model);
  if (i == book->profiles.end())
    return any;
  for (auto& p : i->second->all) {
    if (p.layers == x.model->layers_key)
      return &p;
    else if (p.layers.empty())
      any = &p;
  }
  return any;
}

const live_cost* average_of(const cost_book* book, const cost_query& x) {
  if (book == nullptr)
    return nullptr;
  if (auto i = book->averages.find(x.model->model); i != book->averages.end())
    for (auto& y : i->second->all)
      if (y.version == x.model->version && y.layers == x.layers
          && y.device == x.device)
        return &y;
  return nullptr;
}

std::string origin_of(const profile& p, const std::string& device) {
  auto i = p.sources.find(device);
  return "profile of " + (i == p.sources.end() ? device : i->second);
}

/// A metric of the layers in a query. Points measured at the query's share and
/// threads take precedence over points of the whole device.
curve curve_for(const profile& p, const cost_query& x,
                const std::string& metric) {
  auto whole = x.layers == layer_range{} || x.layers == whole_of(*x.model);
  if (whole) {
    std::map<std::string, double> at;
    if (x.share > 0)
      at["share"] = x.share;
    if (x.threads > 1)
      at["threads"] = static_cast<double>(x.threads);
    if (auto out = curve_of(p, metric, x.device, at); !out.empty())
      return out;
    return curve_of(p, metric, x.device);
  }
  return curve_of_layers(p, metric, x.device, x.layers.first, x.layers.last,
                         whole_of(*x.model).last);
}

} // namespace

std::optional<cost_value> execution_seconds(const cost_book* book,
                                            const cost_query& query,
                                            double batch) {
  auto* average = average_of(book, query);
  auto has_run =
    average != nullptr && average->executions > 0 && average->batch > 0;
  auto* p = profile_of(book, query);
  auto times = p == nullptr ? curve{} : curve_for(*p, query, "execute_seconds");
  if (times.empty())
    return has_run ? std::optional{cost_value{
             average->execute * std::max(1.0, batch / average->batch), live}}
                   : std::nullopt;
  cost_value out{times.at(batch), origin_of(*p, query.device)};
  if (auto expected = has_run ? times.at(average->batch) : 0; expected > 0) {
    out.value *= average->execute / expected;
    out.origin += ", corrected";
  }
  return out;
}

std::optional<cost_value> slowest_execution(const cost_book* book,
                                            const model_state& model) {
  return slowest_execution(book, model, whole_of(model.bundle));
}

std::optional<cost_value> slowest_execution(const cost_book* book,
                                            const model_state& model,
                                            const layer_range& layers) {
  if (book == nullptr || model.version == 0)
    return std::nullopt;
  std::set<std::string> kinds;
  if (auto i = book->profiles.find(model.bundle.model);
      i != book->profiles.end())
    for (auto& p : i->second->all)
      kinds.merge(devices_in(p));
  if (auto i = book->averages.find(model.bundle.model);
      i != book->averages.end())
    for (auto& y : i->second->all)
      kinds.insert(y.device);
  if (kinds.contains(model.settings.device))
    kinds = {model.settings.device};
  std::optional<cost_value> out;
  for (auto& kind : kinds) {
    auto found =
      execution_seconds(book,
                        {&model.bundle, layers, kind, model.settings.share,
                         model.settings.threads},
                        1);
    if (found && (!out || found->value > out->value))
      out = found;
  }
  return out;
}

std::optional<std::vector<double>> layer_seconds(const cost_book* book,
                                                 const model_state& model) {
  auto layers = whole_of(model.bundle).last;
  auto* p = profile_of(book, {&model.bundle, {}, {}, 0, 1});
  std::optional<std::vector<double>> out;
  double longest = 0;
  if (p == nullptr)
    return out;
  auto kinds = devices_in(*p);
  if (kinds.contains(model.settings.device))
    kinds = {model.settings.device};
  for (auto& kind : kinds) {
    if (layers_in(*p, kind) != layers)
      continue;
    std::vector<double> seconds;
    for (uint64_t i = 0; i < layers; ++i) {
      auto known =
        curve_of_layers(*p, "execute_seconds", kind, i, i + 1, layers);
      seconds.push_back(known.empty() ? 0 : known.at(1));
    }
    auto sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    if (sum > longest)
      out = std::move(seconds);
    longest = std::max(longest, sum);
  }
  return out;
}

std::optional<cost_value> profiled(const cost_book* book,
                                   const cost_query& query,
                                   const std::string& metric, double batch) {
  auto* p = profile_of(book, query);
  auto known = p == nullptr ? curve{} : curve_for(*p, query, metric);
  if (known.empty())
    return std::nullopt;
  return cost_value{known.at(batch), origin_of(*p, query.device)};
}

std::vector<double> profiled_batches(const cost_book* book,
                                     const cost_query& query,
                                     const std::string& metric) {
  std::set<double> out;
  if (auto* p = profile_of(book, query))
    for (auto& y : p->points)
      if (y.device == query.device && y.dimensions.empty()
          && y.metrics.contains(metric))
        out.insert(y.batch);
  return {out.begin(), out.end()};
}

std::optional<cost_value> memory_bytes(const cost_book* book,
                                       const cost_query& query, double batch) {
  auto* p = profile_of(book, query);
  if (p == nullptr)
    return std::nullopt;
  auto parameters = curve_for(*p, query, "memory_bytes");
  auto activations = curve_for(*p, query, "activation_bytes");
  if (parameters.empty())
    return std::nullopt;
  return cost_value{parameters.at(batch)
                      + (activations.empty() ? 0 : activations.at(batch)),
                    origin_of(*p, query.device)};
}

std::optional<cost_value>
activation_bytes(const cost_book* book, const cost_query& query, double batch) {
  auto* p = profile_of(book, query);
  if (p == nullptr)
    return std::nullopt;
  auto known = curve_for(*p, query, "activation_bytes");
  if (known.empty())
    return std::nullopt;
  return cost_value{known.at(batch), origin_of(*p, query.device)};
}

std::optional<measured_contention> contention_of(const cost_book* book,
                                                 const cost_query& query) {
  auto* p = profile_of(book, query);
  if (p == nullptr)
    return std::nullopt;
  measured_contention out;
  if (auto alone = curve_of(*p, "execute_seconds", query.device);
      !alone.empty())
    out.add(1, std::move(alone));
  for (auto& point : p->points)
    if (auto i = point.dimensions.find("at_once");
        i != point.dimensions.end() && point.dimensions.size() == 1
        && point.device == query.device)
      out.add(i->second,
              curve_of(*p, "execute_seconds", query.device, point.dimensions));
  if (!out.known())
    return std::nullopt;
  return out;
}

std::optional<start_cost> start_seconds(const cost_book* book,
                                        const cost_query& query,
                                        const std::string& source) {
  if (auto* average = average_of(book, query); average != nullptr)
    if (auto i = average->starts.find(source);
        i != average->starts.end() && i->second.count > 0) {
      auto& y = i->second;
      return start_cost{y.fetch, y.load, y.warm_up, live};
    }
  auto* p = profile_of(book, query);
  auto load = p == nullptr ? curve{} : curve_for(*p, query, "load_seconds");
  if (load.empty())
    return std::nullopt;
  auto warm_up = curve_for(*p, query, "warm_up_seconds");
  return start_cost{0, load.at(1), warm_up.empty() ? 0 : warm_up.at(1),
                    origin_of(*p, query.device)};
}

} // namespace millrace
